"""Who gains and who loses: PACE against Local by seed and by receiver."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pace.reports.trial import Trial
from pace.task import accuracy
from pace_study.cell import Store
from pace_study.records import score, title, trials
from pace_study.study import LOCAL, PACE, Part

TIE = 0.01  # points: a smaller difference is a tie (the paper's tolerance)


@dataclass(frozen=True)
class Paired:
    """PACE minus Local over seeds, in points, with the 95 % interval of a paired t test."""

    dataset: str
    metric: str
    differences: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.differences)

    @property
    def interval(self) -> tuple[float, float]:
        return t_interval(self.differences)

    @property
    def counts(self) -> tuple[int, int, int]:
        return win_tie_loss(self.differences)


def t_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """mean ± t · s / √n; a single value has no interval."""
    from scipy.stats import t

    if len(values) < 2:
        return math.nan, math.nan
    reach = float(t.ppf((1 + level) / 2, len(values) - 1))
    half = reach * statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean(values)
    return mean - half, mean + half


def win_tie_loss(differences: Sequence[float]) -> tuple[int, int, int]:
    """How many are above, within and below the tolerance."""
    wins = sum(difference > TIE for difference in differences)
    losses = sum(difference < -TIE for difference in differences)
    return wins, len(differences) - wins - losses, losses


def paired(part: Part, store: Store, seeds: Sequence[int]) -> list[Paired]:
    """Seed by seed, on each dataset and metric."""
    found = []
    for dataset in part.datasets:
        ours = trials(part, PACE, dataset, part.clients[0], store, seeds)
        for metric in part.metrics if ours else ():
            differences = tuple(
                score(trial, "adopted", metric) - score(trial, "local", metric) for trial in ours
            )
            found.append(Paired(title(dataset), metric, differences))
    return found


@dataclass(frozen=True)
class Receivers:
    """Each receiver's accuracy gain on each seed, in points."""

    dataset: str
    gains: tuple[tuple[float, ...], ...]  # receiver, seed
    alphas: tuple[tuple[float, ...], ...]  # receiver, seed

    @property
    def counts(self) -> tuple[int, int, int]:
        """Helped, tied and harmed receiver-seed units."""
        return win_tie_loss([gain for receiver in self.gains for gain in receiver])

    @property
    def worst(self) -> float:
        """The worst receiver's mean over seeds."""
        return min(statistics.fmean(receiver) for receiver in self.gains)


def receivers(part: Part, store: Store, seeds: Sequence[int]) -> list[Receivers]:
    """Receiver by receiver, on each dataset."""
    found = []
    for dataset in part.datasets:
        ours = trials(part, PACE, dataset, part.clients[0], store, seeds)
        if ours:
            gains = tuple(zip(*(each_gain(trial) for trial in ours), strict=True))
            alphas = tuple(zip(*(trial.alphas for trial in ours), strict=True))
            found.append(Receivers(title(dataset), gains, alphas))
    return found


def each_gain(trial: Trial) -> list[float]:
    """What each receiver's accuracy gained over its Local, in points."""
    return [
        100 * (accuracy(after) - accuracy(before))
        for after, before in zip(trial.counts["adopted"], trial.counts[LOCAL.reading], strict=True)
    ]
