"""How far a draw of the masks alone moves a number, from redraws of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from pace.reports.trial import Trial
from pace_study.cell import Cell, Store
from pace_study.records import score, title
from pace_study.study import FAMILIES, PARTS, REDRAW_SEEDS, REDRAWS, Row, in_order

LEVEL = 0.95
METRICS = ("accuracy", "weighted_f1", "macro_f1", "mean_alpha", "alpha_zero_percent")

Trials = Sequence[Sequence[Sequence[Trial]]]  # setting, row, seed
Number = Callable[[Trials], float]


@dataclass(frozen=True)
class Draws:
    """A number on each redraw of the masks, each over the same seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def std(self) -> float:
        return statistics.stdev(self.values)

    @property
    def interval(self) -> tuple[float, float]:
        """Where one more draw falls with 95 %: mean ± t s sqrt(1 + 1/n)."""
        half = student_t(len(self.values)) * self.std * math.sqrt(1 + 1 / len(self.values))
        return self.mean - half, self.mean + half


@cache
def student_t(count: int) -> float:
    """The quantile of Student's t for so many values."""
    from scipy.stats import t

    return float(t.ppf((1 + LEVEL) / 2, count - 1))


@dataclass(frozen=True)
class Setting:
    """A dataset divided among clients."""

    dataset: str
    partition: str = "louvain"
    clients: int = 10

    def trials(
        self, row: Row, store: Store, seeds: Sequence[int], data_seed: int
    ) -> list[Trial] | None:
        """A row's trials in order of seeds, None unless all are stored."""
        cells = [
            Cell(self.dataset, self.partition, self.clients, row.method, row.rank, seed, data_seed)
            for seed in seeds
        ]
        found = [trial for cell in cells if (trial := store.read(cell)) is not None]
        return found if found and len(found) == len(cells) else None


def on_each_draw(
    number: Number,
    settings: Sequence[Setting],
    rows: Sequence[Row],
    store: Store,
    seeds: Sequence[int],
) -> Draws | None:
    """`number` of trials[setting][row] on each redraw that has them all; None below two."""
    chosen = in_order(seeds)[:REDRAW_SEEDS]
    values = []
    for data_seed in range(REDRAWS):
        found = [
            [setting.trials(row, store, chosen, data_seed) for row in rows] for setting in settings
        ]
        whole = [[trials for trials in line if trials] for line in found]
        if whole == found:
            values.append(number(whole))
    return Draws(tuple(values)) if len(values) > 1 else None


Key = tuple[str, str, str, str, int]  # dataset's title, row's label, metric, partition, clients
Redrawn = Mapping[Key, Draws]


def known_draws(store: Store, seeds: Sequence[int]) -> dict[Key, Draws]:
    """Every score that `pace reproduce masks` has measured, as far as it has."""
    known = {}
    for part in PARTS.values():
        if part.name.split("-")[0] != FAMILIES[0]:
            continue
        for dataset in part.datasets:
            setting = Setting(dataset, part.partition, part.clients[0])
            for row in part.rows:
                for metric in METRICS:
                    draws = on_each_draw(mean(row, metric), [setting], [row], store, seeds)
                    if draws is None:
                        break
                    key = (title(dataset), row.label, metric, part.partition, part.clients[0])
                    known[key] = draws
    return known


def mean(row: Row, metric: str) -> Number:
    """A row's mean over seeds, averaged over settings."""

    def number(trials: Trials) -> float:
        return statistics.fmean(mean_over_seeds(each, row, metric) for (each,) in trials)

    return number


def mean_over_seeds(trials: Sequence[Trial], row: Row, metric: str) -> float:
    return statistics.fmean(score(trial, row.reading, metric) for trial in trials)
