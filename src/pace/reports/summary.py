"""The trials of a run in numbers: scores, α, bytes and seconds, over seeds and clients."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from pace.io.records import OPTIONAL, record_key
from pace.reports.trial import Trial, auc, readings
from pace.task import SCORES, pooled


@dataclass(frozen=True)
class Spread:
    """A score over seeds."""

    mean: float
    std: float | None
    """The sample standard deviation; None where there is one seed."""
    per_seed: tuple[float, ...] = ()

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        std = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), std, tuple(values))


@dataclass(frozen=True)
class ScoreRow:
    """Scores of one reading of one method, on the test nodes of all clients together."""

    method: str
    reading: str
    """`local` (α = 0), `external` (α = 1) or `adopted`."""
    accuracy: Spread
    weighted_f1: Spread
    macro_f1: Spread
    roc_auc: Spread | None = field(default=None, metadata=OPTIONAL)
    """Of two classes; None where there are more."""

    @property
    def scores(self) -> dict[str, Spread]:
        """Score -> its spread, of those that are defined."""
        named = {name: getattr(self, name) for name in (*SCORES, "roc_auc")}
        return {name: spread for name, spread in named.items() if spread is not None}


@dataclass(frozen=True)
class Alphas:
    """How much of External the receivers admitted."""

    mean: float
    zero_share: float
    """The share of receivers that kept Local."""
    per_seed: tuple[tuple[float, ...], ...]
    """Seed by seed, one for each client."""


@dataclass(frozen=True)
class Traffic:
    """Mean bytes of one client's messages, framing included."""

    dense: int
    """Bytes of the shared model sent whole."""
    upload: float
    returned: float = field(metadata=record_key("return"))
    upload_ratio: float
    """Against `dense`."""
    return_ratio: float


@dataclass(frozen=True)
class MethodSummary:
    """What one method's receivers adopted, and what it cost."""

    alpha: Alphas
    bytes: Traffic
    seconds: dict[str, float]
    """Step (`fit`, `merge`, `adopt`) -> mean seconds a seed, all clients together."""


@dataclass(frozen=True)
class Summary:
    """All trials of a run in numbers."""

    results: tuple[ScoreRow, ...]
    alpha: Alphas
    """PACE's, or those of the last method where PACE did not run."""
    bytes: Traffic
    """Likewise."""
    methods: dict[str, MethodSummary]


@dataclass(frozen=True)
class Comparison:
    """One method less another, paired by seed."""

    first: str
    second: str
    score: str
    per_seed: tuple[float, ...]
    """First less second, seed by seed, between -1 and 1."""

    @property
    def mean(self) -> float:
        return statistics.fmean(self.per_seed)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the mean difference lies with 95 % (Student's t); None where there is one seed."""
        from scipy.special import stdtrit  # 80 ms, which no run should wait for

        count = len(self.per_seed)
        if count < 2:
            return None
        error = statistics.stdev(self.per_seed) / math.sqrt(count)
        half = float(stdtrit(count - 1, 0.975)) * error
        return self.mean - half, self.mean + half

    def __repr__(self) -> str:
        points = f"{self.first} - {self.second}: {100 * self.mean:+.2f} points of {self.score}"
        if self.interval is None:
            return f"{points}, one seed"
        low, high = (100 * end for end in self.interval)
        return f"{points}, 95 % within [{low:+.2f}, {high:+.2f}], {len(self.per_seed)} seeds"


def summarise(trials: Sequence[Trial]) -> Summary:
    """Scores by method and reading, alphas and bytes by method."""
    methods = list(dict.fromkeys(trial.method for trial in trials))
    by_method = {name: [trial for trial in trials if trial.method == name] for name in methods}
    rows = [
        ScoreRow(name, reading, **_scores(group, reading))
        for name, group in by_method.items()
        for reading in readings(name)
    ]
    summaries = {
        name: MethodSummary(_alphas(group), _traffic(group), _seconds(group))
        for name, group in by_method.items()
    }
    leading = summaries["pace" if "pace" in by_method else methods[-1]]
    return Summary(tuple(rows), leading.alpha, leading.bytes, summaries)


def _scores(trials: Sequence[Trial], reading: str) -> dict[str, Spread]:
    tables = [pooled(trial.counts[reading]) for trial in trials]
    scores = {name: Spread.of([score(table) for table in tables]) for name, score in SCORES.items()}
    areas = [auc(trial, reading) for trial in trials]
    if defined := [area for area in areas if area is not None]:
        scores["roc_auc"] = Spread.of(defined)
    return scores


def _alphas(trials: Sequence[Trial]) -> Alphas:
    alphas = [alpha for trial in trials for alpha in trial.alphas]
    return Alphas(
        statistics.fmean(alphas),
        sum(alpha == 0 for alpha in alphas) / len(alphas),
        tuple(tuple(trial.alphas) for trial in trials),
    )


def _traffic(trials: Sequence[Trial]) -> Traffic:
    dense = trials[0].dense
    upload = statistics.fmean(size for trial in trials for size in trial.upload)
    returned = statistics.fmean(size for trial in trials for size in trial.returned)
    return Traffic(dense, upload, returned, upload / dense, returned / dense)


def _seconds(trials: Sequence[Trial]) -> dict[str, float]:
    steps = trials[0].seconds
    return {step: statistics.fmean(trial.seconds[step] for trial in trials) for step in steps}
