"""What a run found, as data: every number is computed from its trials."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pace.errors import FileError
from pace.io import records, regular, untrusted
from pace.metrics import SCORES, mean_auc, pooled
from pace.protocol.federation import Federation, describe
from pace.reports.stored import LARGEST, TODAY, plain, restored
from pace.reports.trial import READINGS, Trial

NAME = "results.json"


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
    roc_auc: Spread | None = field(default=None, metadata=records.OPTIONAL)
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
    returned: float = field(metadata=records.record_key("return"))
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


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """The shared model."""

    kind: str = "gcn"
    """Its name in `pace.MODELS`; files of versions that had the GCN alone do not say it."""
    widths: tuple[int, ...]
    """Features, hidden layers, classes."""
    dropout: float
    settings: dict[str, object] = field(default_factory=dict, metadata=records.REST)
    """What this kind has beside widths and dropout, such as a GAT's heads."""


@dataclass(frozen=True)
class MethodSettings:
    """What a method was told, and how its clients trained."""

    method: dict[str, object]
    """Its kind and its fields."""
    training: dict[str, object]
    """The fields of its recipe: epochs, rate, decay and the rest."""
    numbers: str
    """How its messages are written."""

    @classmethod
    def of(cls, federation: Federation) -> MethodSettings:
        return cls(describe(federation.method), describe(federation.recipe), federation.numbers)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What `pace run` was asked for, and what it ran with."""

    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    dataset: str
    partition: str
    clients: int
    seeds: tuple[int, ...]
    device: str
    data_seed: int | None
    """Of the partition and the masks; None where a partition file holds both."""
    epochs: int | None
    """Training steps; None: each method's own budget."""
    lr: float | None = None
    """The learning rate; None: each method's own."""
    weight_decay: float | None = None
    """None: each method's own."""
    settings: dict[str, MethodSettings] = field(default_factory=dict)
    """By method; files of older versions do not have it."""
    model: ModelSettings
    rank: int | None
    """Of PACE's carrier; None: dense."""
    numbers: str = "float32"
    """How numbers are written on the wire."""
    sealed: bool = field(default=False, metadata=records.OPTIONAL)
    """Whether the server saw sums only."""


@dataclass(frozen=True)
class RunResult:
    """A run of `pace run`: what was asked for, what came out, and the trials it was computed from.

    Example:
        >>> from pace.reports.run_result import RunResult
        >>> RunResult.read("nowhere")
        Traceback (most recent call last):
        ...
        pace.errors.FileError: nowhere/results.json ...
    """

    settings: RunSettings
    summary: Summary
    trials: tuple[Trial, ...]
    """One for each method and seed; empty in files of versions that did not keep them."""

    def __repr__(self) -> str:
        run, methods = self.settings, ", ".join(self.summary.methods)
        where = f"{run.dataset}, {run.partition}, {run.clients} clients, seeds {run.seeds}"
        return f"RunResult({where}: {methods})"

    def plain(self) -> dict[str, object]:
        """As JSON has it: settings and summary side by side, then the trials."""
        trials = [
            {"method": trial.method, "seed": trial.seed, **plain(trial)} for trial in self.trials
        ]
        return {
            **records.plain_record(self.settings),
            **records.plain_record(self.summary),
            "trials": trials,
        }

    def encode(self) -> bytes:
        """The content of `results.json`."""
        return (json.dumps(self.plain(), indent=1) + "\n").encode()

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> RunResult:
        """The inverse of `plain`, for files of older versions too.

        Raises:
            ValueError: it is something else; the sentence names the key.
        """
        rows = [_today(row) for row in found["results"]]
        return cls(
            records.read_record(RunSettings, found),
            records.read_record(Summary, {**found, "results": rows}),
            tuple(restored(each["method"], each["seed"], each) for each in found.get("trials", ())),
        )

    @classmethod
    def read(cls, folder: str | Path) -> RunResult:
        """The run that `pace run --out` stored in a folder.

        Raises:
            FileError: there is none, or it is damaged.
        """
        path = Path(folder) / NAME
        try:
            return cls.of(untrusted.json(regular.read(path, LARGEST)))
        except FileNotFoundError:
            raise FileError(
                f"{path} not found: name a folder that `pace run --out` has written"
            ) from None
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            said = str(error) if isinstance(error, ValueError) else repr(error)
            raise FileError(
                f"{path} is not a result of `pace run` ({said}): run it again"
            ) from None


def _today(row: Mapping[str, Any]) -> dict[str, object]:
    """A row of scores in today's words: what is `external` was called `native` at first."""
    return {**row, "reading": TODAY.get(row["reading"], row["reading"])}


def summarise(trials: Sequence[Trial]) -> Summary:
    """Scores by method and reading, alphas and bytes by method."""
    methods = list(dict.fromkeys(trial.method for trial in trials))
    by_method = {name: [trial for trial in trials if trial.method == name] for name in methods}
    leading = by_method["pace" if "pace" in by_method else methods[-1]]
    rows = [
        ScoreRow(name, reading, **scores(group, reading))
        for name, group in by_method.items()
        for reading in readings(name)
    ]
    summaries = {
        name: MethodSummary(alphas(group), traffic(group), seconds(group))
        for name, group in by_method.items()
    }
    return Summary(tuple(rows), alphas(leading), traffic(leading), summaries)


def readings(method: str) -> list[str]:
    """Local has one reading; every other method has its own local, its external and the adopted."""
    return ["local"] if method == "local" else list(READINGS)


def scores(trials: Sequence[Trial], reading: str) -> dict[str, Spread]:
    """Each score of a reading: mean and sample standard deviation over seeds, and seed by seed."""
    tables = [pooled(trial.confusions[reading]) for trial in trials]
    by_name = {name: spread([score(table) for table in tables]) for name, score in SCORES.items()}
    areas = [auc(trial, reading) for trial in trials]
    if known := [area for area in areas if area is not None]:
        by_name["roc_auc"] = spread(known)
    return by_name


def auc(trial: Trial, reading: str) -> float | None:
    """The ROC AUC of a reading; None where there are more than two classes."""
    if not trial.roc_auc:
        return None
    nodes = [int(counts.sum()) for counts in trial.confusions[reading]]
    return mean_auc(trial.roc_auc[reading], nodes)


def spread(values: Sequence[float]) -> Spread:
    """A single value has no standard deviation."""
    std = statistics.stdev(values) if len(values) > 1 else None
    return Spread(statistics.fmean(values), std, tuple(values))


def alphas(trials: Sequence[Trial]) -> Alphas:
    """How much of External the receivers admitted, and the share of them that kept Local."""
    pooled_alphas = [alpha for trial in trials for alpha in trial.alphas]
    return Alphas(
        statistics.fmean(pooled_alphas),
        sum(alpha == 0 for alpha in pooled_alphas) / len(pooled_alphas),
        tuple(tuple(trial.alphas) for trial in trials),
    )


def traffic(trials: Sequence[Trial]) -> Traffic:
    """Bytes of one client's messages, framing included, against a dense model."""
    dense = trials[0].dense
    upload = statistics.fmean(size for trial in trials for size in trial.upload)
    returned = statistics.fmean(size for trial in trials for size in trial.returned)
    return Traffic(dense, upload, returned, upload / dense, returned / dense)


def seconds(trials: Sequence[Trial]) -> dict[str, float]:
    """Mean seconds of each step."""
    steps = trials[0].seconds
    return {step: statistics.fmean(trial.seconds[step] for trial in trials) for step in steps}
