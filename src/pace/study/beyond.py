"""Methods beyond the paper against PACE: setting by setting, part by part and level by level."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pace.runtimes.simulation import Trial
from pace.study.cell import Store
from pace.study.diagnostics import each_gain, t_interval, win_tie_loss
from pace.study.records import score, title, trials
from pace.study.study import (
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


@dataclass(frozen=True)
class Aim:
    """What a method set out to do, whether it did, and the numbers that say so."""

    statement: str
    holds: bool
    evidence: str


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


def regression_aims(store: Store, seeds: Sequence[int]) -> list[Aim]:
    """What the closed form set out to do, and whether both its forms did."""
    found = {row.label: settings(store, seeds, row) for row in (PACE, RIDGE, SUMS)}
    common = set.intersection(*({each.name for each in some} for some in found.values()))
    if not common:
        return []
    every = {
        label: line(label, [each for each in some if each.name in common])
        for label, some in found.items()
    }
    old, factored, summed = every.values()
    judged = [
        Aim(
            f"{new.label}: on average at least {least} points above PACE.",
            new.over_pace >= least,
            f"{new.over_pace:+.2f} over {new.settings} settings",
        )
        for new, least in ((factored, 3.0), (summed, 2.5))
    ]
    for new in (factored, summed):
        judged += [
            Aim(
                f"{new.label}: no setting more than 0.1 point below PACE or Local.",
                min(new.lowest, new.below_local) >= -0.1,
                f"lowest {new.lowest:+.2f} against PACE, {new.below_local:+.2f} against Local",
            ),
            Aim(
                f"{new.label}: at most a third of PACE's harmed receivers.",
                new.harmed <= old.harmed / 3,
                f"{new.harmed} against {old.harmed} of {new.receivers}; worst receiver "
                f"{new.worst:+.2f} against {old.worst:+.2f}",
            ),
        ]
    judged.append(
        Aim(
            f"{factored.label}: each direction at most PACE's bytes.",
            max(factored.upload, factored.returned) <= 1,
            f"upload {100 * factored.upload:.1f} %, return {100 * factored.returned:.1f} % on "
            f"average; {summed.label} {100 * summed.upload:.0f} % and {100 * summed.returned:.0f} %",
        )
    )
    return judged


def aims(store: Store, seeds: Sequence[int]) -> list[Aim]:
    """What pace-duo set out to do, and whether it did."""
    ours = settings(store, seeds)
    if not ours:
        return []
    names = {each.name for each in ours}
    theirs = [each for each in settings(store, seeds, PACE) if each.name in names]
    new, old = line(DUO.label, ours), line(PACE.label, theirs)
    least = min(ours, key=lambda each: each.over_pace)
    lowest = min(ours, key=lambda each: each.over_local)
    dearest = max(ours, key=lambda each: max(each.upload, each.returned))
    most = max(dearest.upload, dearest.returned)
    return [
        Aim(
            "No setting is worse than PACE by more than 0.1 point.",
            new.lowest >= -0.1,
            f"lowest {least.over_pace:+.2f} ({least.name}); "
            f"{sum(each.over_pace < -0.1 for each in ours)} of {len(ours)} settings below -0.1",
        ),
        Aim(
            "On average it is at least 0.3 point better than PACE.",
            new.over_pace >= 0.3,
            f"{new.over_pace:+.2f} over {new.settings} settings",
        ),
        Aim(
            "No setting is below Local by more than 0.1 point.",
            new.below_local >= -0.1,
            f"lowest {lowest.over_local:+.2f} ({lowest.name}); PACE's lowest {old.below_local:+.2f}",
        ),
        Aim(
            "At most half as many receivers are harmed as by PACE.",
            new.harmed <= old.harmed / 2,
            f"{new.harmed} against {old.harmed} of {new.receivers}; worst receiver "
            f"{new.worst:+.2f} against {old.worst:+.2f}",
        ),
        Aim(
            "It costs at most 52 % of PACE's bytes, in each direction.",
            most <= 0.52,
            f"upload {100 * new.upload:.1f} %, return {100 * new.returned:.1f} % on average; "
            f"most {100 * most:.1f} % ({dearest.name})",
        ),
    ]
