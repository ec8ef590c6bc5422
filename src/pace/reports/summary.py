"""The trials of a run in numbers: scores, α, bytes and seconds, over seeds and clients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean, stdev

from pace.io.records import OPTIONAL, record_key
from pace.reports.trial import Trial, readings, score_rows
from pace.task import SCORES


@dataclass(frozen=True)
class Spread:
    """A score over seeds."""

    mean: float
    std: float | None
    """The sample standard deviation; None where there is one seed."""
    per_seed: tuple[float, ...] = ()


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
        return fmean(self.per_seed)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the mean difference lies with 95 % (Student's t); None where there is one seed."""
        from scipy.special import stdtrit  # 80 ms, which no run should wait for

        count = len(self.per_seed)
        if count < 2:
            return None
        half = float(stdtrit(count - 1, 0.975)) * (stdev(self.per_seed) / math.sqrt(count))
        return self.mean - half, self.mean + half

    def __repr__(self) -> str:
        points = f"{self.first} - {self.second}: {100 * self.mean:+.2f} points of {self.score}"
        if self.interval is None:
            return f"{points}, one seed"
        low, high = (100 * end for end in self.interval)
        return f"{points}, 95 % within [{low:+.2f}, {high:+.2f}], {len(self.per_seed)} seeds"


def summarise(trials: Sequence[Trial]) -> Summary:
    """Scores by method and reading, alphas and bytes by method."""
    names = dict.fromkeys(trial.method for trial in trials)
    by_method = {name: [trial for trial in trials if trial.method == name] for name in names}
    results = tuple(
        ScoreRow(name, reading, **_spreads(group, reading))
        for name, group in by_method.items()
        for reading in readings(name)
    )
    methods = {name: _costs(group) for name, group in by_method.items()}
    leading = methods["pace" if "pace" in methods else list(methods)[-1]]
    return Summary(results, leading.alpha, leading.bytes, methods)


def _spreads(trials: Sequence[Trial], reading: str) -> dict[str, Spread]:
    rows = [row for trial in trials for row in score_rows(trial) if row["reading"] == reading]
    spreads = {}
    for name in (*SCORES, "roc_auc"):
        if values := tuple(row[name] for row in rows if row[name] is not None):
            spreads[name] = Spread(
                fmean(values), stdev(values) if len(values) > 1 else None, values
            )
    return spreads


def _costs(trials: Sequence[Trial]) -> MethodSummary:
    alphas = [alpha for trial in trials for alpha in trial.alphas]
    upload = fmean(chain.from_iterable(trial.upload for trial in trials))
    returned = fmean(chain.from_iterable(trial.returned for trial in trials))
    dense, steps = trials[0].dense, trials[0].seconds
    return MethodSummary(
        Alphas(
            fmean(alphas),
            sum(alpha == 0 for alpha in alphas) / len(alphas),
            tuple(tuple(trial.alphas) for trial in trials),
        ),
        Traffic(dense, upload, returned, upload / dense, returned / dense),
        {step: fmean(trial.seconds[step] for trial in trials) for step in steps},
    )
