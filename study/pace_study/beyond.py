"""Methods beyond the paper against PACE: setting by setting, part by part and level by level."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pace.reports.trial import Trial, auc
from pace_study.cell import Store
from pace_study.diagnostics import each_gain, t_interval, win_tie_loss
from pace_study.records import score, title, trials
from pace_study.study import (
    DUO,
    GUARDS,
    LOCAL,
    PACE,
    PARTS,
    REGRESSIONS,
    RIDGE,
    STEPS,
    SUMS,
    Part,
    Row,
)

HOMES = tuple(PARTS[name] for name in ("beyond", "beyond-metis", "beyond-dirichlet"))
ELSEWHERE = tuple(PARTS[name] for name in ("beyond-twitch", "beyond-heterophilous"))


@dataclass(frozen=True)
class Setting:
    """Trials of one row on one dataset, partition and number of clients, seed by seed."""

    dataset: str
    partition: str
    clients: int
    ours: tuple[Trial, ...]
    pace: tuple[Trial, ...]

    @property
    def name(self) -> str:
        return f"{title(self.dataset)}, {self.partition}, C = {self.clients}"

    @property
    def accuracy(self) -> float:
        return statistics.fmean(score(trial, "adopted", "accuracy") for trial in self.ours)

    @property
    def roc_auc(self) -> float | None:
        """In percent, where there are two classes."""
        areas = [area for trial in self.ours if (area := auc(trial, "adopted")) is not None]
        return 100 * statistics.fmean(areas) if areas else None

    @property
    def differences(self) -> list[float]:
        """Ours minus PACE in points, seed by seed."""
        return [
            score(one, "adopted", "accuracy") - score(other, "adopted", "accuracy")
            for one, other in zip(self.ours, self.pace, strict=True)
        ]

    @property
    def over_pace(self) -> float:
        return statistics.fmean(self.differences)

    @property
    def interval(self) -> tuple[float, float]:
        return t_interval(self.differences)

    @property
    def over_local(self) -> float:
        return statistics.fmean(
            score(trial, "adopted", "accuracy") - score(trial, "local", "accuracy")
            for trial in self.ours
        )

    @property
    def harmed(self) -> int:
        """Receivers on seeds that end below their Local."""
        return sum(win_tie_loss(each_gain(trial))[2] for trial in self.ours)

    @property
    def worst(self) -> float:
        """The worst receiver's mean gain over seeds."""
        return min(map(statistics.fmean, zip(*map(each_gain, self.ours), strict=True)))

    @property
    def upload(self) -> float:
        """Bytes against PACE's."""
        return _total(self.ours, "upload") / _total(self.pace, "upload")

    @property
    def returned(self) -> float:
        return _total(self.ours, "returned") / _total(self.pace, "returned")


def _total(found: Sequence[Trial], direction: str) -> int:
    return sum(sum(getattr(trial, direction)) for trial in found)


def settings(
    store: Store, seeds: Sequence[int], row: Row = DUO, homes: Iterable[Part] = HOMES
) -> list[Setting]:
    """Every setting of which both the row and PACE are stored."""
    made = []
    for part in homes:
        for dataset in part.datasets:
            for clients in part.clients:
                both = [
                    tuple(trials(part, each, dataset, clients, store, seeds))
                    for each in (row, PACE)
                ]
                if all(both):
                    made.append(Setting(dataset, part.partition, clients, both[0], both[1]))
    return made


@dataclass(frozen=True)
class Line:
    """One row over all settings."""

    label: str
    settings: int
    over_pace: float  # mean over settings, points
    over_local: float
    lowest: float  # the worst setting's difference to PACE
    below_local: float  # the worst setting's difference to Local
    harmed: int
    receivers: int
    worst: float
    upload: float
    returned: float


def line(label: str, found: Sequence[Setting]) -> Line:
    return Line(
        label,
        len(found),
        statistics.fmean(each.over_pace for each in found),
        statistics.fmean(each.over_local for each in found),
        min(each.over_pace for each in found),
        min(each.over_local for each in found),
        sum(each.harmed for each in found),
        sum(each.clients * len(each.ours) for each in found),
        min(each.worst for each in found),
        statistics.fmean(each.upload for each in found),
        statistics.fmean(each.returned for each in found),
    )


def steps(store: Store, seeds: Sequence[int]) -> list[Line]:
    """From PACE to pace-duo, a part at a time, over the settings that all rows have."""
    return _lines({row.label: row for row in STEPS if row is not LOCAL}, store, seeds)


def levels(store: Store, seeds: Sequence[int]) -> list[Line]:
    """The guard by its level, from none to strict."""
    return _lines({f"{level:g}": row for level, row in GUARDS.items()}, store, seeds)


def methods(store: Store, seeds: Sequence[int]) -> list[Line]:
    """PACE and everything beyond it that a user may choose, over the settings that all have."""
    return _lines({row.label: row for row in (PACE, DUO, RIDGE, SUMS)}, store, seeds)


def choices(store: Store, seeds: Sequence[int]) -> list[Line]:
    """What each choice of the closed form is worth."""
    return _lines({row.label: row for row in REGRESSIONS}, store, seeds)


def _lines(rows: dict[str, Row], store: Store, seeds: Sequence[int]) -> list[Line]:
    found = {label: settings(store, seeds, row) for label, row in rows.items()}
    if not all(found.values()):
        return []
    common = set.intersection(*({each.name for each in some} for some in found.values()))
    kept = {label: [each for each in some if each.name in common] for label, some in found.items()}
    return [line(label, some) for label, some in kept.items() if some]
