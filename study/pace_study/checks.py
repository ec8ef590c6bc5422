"""What a sentence of the paper asks of a number, and whether ours meets it: here, or on a redraw."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pace.datasets.partition.split import DATA_SEED
from pace_study.cell import Store
from pace_study.draws import Draws, Number, Setting, Trials, mean_over_seeds, on_each_draw
from pace_study.study import Row

HOLDS = "holds"
WITHIN = "holds within the draw's spread"
FAILS = "does not hold"
UNKNOWN = "cannot be judged"
WORST_FIRST = (FAILS, WITHIN, HOLDS)
MARKS = {HOLDS: "", WITHIN: "≈ ", FAILS: "✗ "}


@dataclass(frozen=True)
class Check:
    """A number, the range that the sentence puts it in, and what redrawing the masks does to it.

    A sentence that prints a number wants it to the printed digit (`exact`); one that says more, less
    or equal wants a direction.
    """

    name: str
    here: float | None
    low: float
    high: float
    draws: Draws | None = None
    exact: bool = False
    unit: str = "+.2f"

    @property
    def verdict(self) -> str:
        """Holds: here and, of a direction, on average over redraws. Within: a redraw may meet it."""
        if self.here is None:
            return UNKNOWN
        met = self.low <= self.here <= self.high
        if self.draws is None:
            return HOLDS if met else FAILS
        if met and (self.exact or self.low <= self.draws.mean <= self.high):
            return HOLDS
        low, high = self.draws.interval
        return WITHIN if met or (low <= self.high and high >= self.low) else FAILS

    @property
    def evidence(self) -> str:
        """`✗ Cora -0.99, draws +0.93 [+0.21, +1.65]`: the verdict, ours, redraws; the paper's number."""
        if self.here is None:
            return f"{self.name} not run"
        text = f"{MARKS[self.verdict]}{self.name} {self.here:{self.unit}}"
        if self.exact:
            text += f" (paper {(self.low + self.high) / 2:{self.unit}})"
        if self.draws is not None:
            low, high = self.draws.interval
            unit = self.unit.replace("d", ".1f")
            text += f", draws {self.draws.mean:{unit}} [{low:{unit}}, {high:{unit}}]"
        return text


def judged(checks: Sequence[Check]) -> tuple[str, str]:
    """The sentence's verdict, which is its worst check's, and the evidence of them all."""
    known = [check.verdict for check in checks if check.verdict != UNKNOWN]
    verdict = next((each for each in WORST_FIRST if each in known), UNKNOWN)
    return verdict, "; ".join(check.evidence for check in checks)


@dataclass(frozen=True)
class Numbers:
    """Numbers of the stored cells, on the study's masks and on redraws of them."""

    store: Store
    seeds: Sequence[int]

    def here(
        self, number: Number, settings: Sequence[Setting], rows: Sequence[Row]
    ) -> float | None:
        found = [
            [setting.trials(row, self.store, self.seeds, DATA_SEED) for row in rows]
            for setting in settings
        ]
        whole = [[trials for trials in line if trials] for line in found]
        return number(whole) if whole == found else None

    def draws(
        self, number: Number, settings: Sequence[Setting], rows: Sequence[Row]
    ) -> Draws | None:
        return on_each_draw(number, settings, rows, self.store, self.seeds)

    def above(
        self,
        name: str,
        number: Number,
        settings: Sequence[Setting],
        rows: Sequence[Row],
        *,
        bounds: tuple[float, float] = (math.ulp(0.0), math.inf),
        unit: str = "+.2f",
    ) -> Check:
        """That the number is above zero, or between other bounds."""
        here, draws = self.here(number, settings, rows), self.draws(number, settings, rows)
        return Check(name, here, *bounds, draws, unit=unit)

    def equal(
        self,
        name: str,
        paper: float,
        number: Number,
        settings: Sequence[Setting],
        rows: Sequence[Row],
        *,
        half: float = 0.005,
        unit: str = "+.2f",
    ) -> Check:
        """That the number is the paper's, to the printed digit."""
        here, draws = self.here(number, settings, rows), self.draws(number, settings, rows)
        bounds = (paper - half - 1e-9, paper + half + 1e-9)
        return Check(name, here, *bounds, draws, exact=True, unit=unit)


def gap(one: Row, other: Row, metric: str = "accuracy") -> Number:
    """One row's mean less the other's, averaged over settings."""

    def number(trials: Trials) -> float:
        return statistics.fmean(
            mean_over_seeds(first, one, metric) - mean_over_seeds(second, other, metric)
            for first, second in trials
        )

    return number


def lead(rows: Sequence[Row], metric: str) -> Number:
    """The last row's mean less the best of the others', as displayed: to two digits."""

    def number(trials: Trials) -> float:
        (line,) = trials
        means = [mean_over_seeds(each, row, metric) for each, row in zip(line, rows, strict=True)]
        return round(means[-1], 2) - round(max(means[:-1]), 2)

    return number
