"""One method on one seed as data; many of them as one table of scores, and in summary."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pace.errors import SettingError, needs_extra
from pace.protocol import Adoption
from pace.task import SCORES, mean_auc, pooled

if TYPE_CHECKING:
    import pandas

READINGS: dict[str, Callable[[Adoption], Tensor]] = {
    "local": lambda adoption: adoption.local,
    "external": lambda adoption: adoption.external,
    "adopted": lambda adoption: adoption.logits,
}
KEY = (  # what a trial is of: the columns that every row begins with
    *("dataset", "partition", "clients", "data_seed", "model", "hidden", "layers", "epochs"),
    *("numbers", "method", "rank", "seed"),
)
SIZES, STEPS = ("upload", "returned", "dense"), ("fit", "merge", "adopt")
BY = {  # the columns of a row for each seed, and for each client
    "seed": (*KEY, "reading", *SCORES, "alpha", "kept_local", *SIZES, *STEPS),
    "client": (*KEY, "reading", "client", "test_nodes", *SCORES, "alpha", *SIZES),
}
SUMMARISED = (*SCORES, "roc_auc", "alpha", "kept_local", *SIZES)
WHOLE = dict.fromkeys(("data_seed", "hidden", "epochs", "rank"), "Int64")  # or absent

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Trial:
    """One method on one seed: all that is kept of it. Every score is computed from these."""

    method: str
    seed: int
    alphas: list[float]
    """One a client."""
    counts: dict[str, list[Tensor]] = field(repr=False)
    """Reading -> one a client, on its test nodes."""
    upload: list[int]
    """Bytes, one a client."""
    returned: list[int]
    """Bytes, one a client."""
    dense: int
    """Bytes of the shared model sent whole."""
    seconds: dict[str, float]
    """Of `fit`, `merge` and `adopt`."""
    roc_auc: dict[str, list[float | None]] = field(default_factory=dict, repr=False)
    """Of two classes: reading -> one a client, None where its test nodes are of one class."""
    ece: dict[str, float] = field(default_factory=dict, repr=False)
    """Reading -> the calibration error of all clients' test nodes together."""

    def plain(self) -> dict[str, object]:
        """As JSON has it; a confusion matrix is text, `12 0 3;0 5 1;2 0 9`, a row a true class."""
        confusions = {
            reading: [
                ";".join(" ".join(map(str, row)) for row in matrix.tolist()) for matrix in counts
            ]
            for reading, counts in self.counts.items()
        }
        optional = ("roc_auc", "ece")
        rest = {key: value for key, value in vars(self).items() if value or key not in optional}
        del rest["counts"]
        return {**rest, "confusions": confusions}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Trial":
        """The inverse of `plain`."""
        rest = dict(content)
        counts = {
            reading: [
                torch.tensor([[int(count) for count in row.split()] for row in text.split(";")])
                for text in matrices
            ]
            for reading, matrices in rest.pop("confusions").items()
        }
        return cls(**rest, counts=counts)


def score_rows(trial: Trial, by: str = "seed") -> Iterator[Row]:
    """A row for each reading, all clients' test nodes together, or for each reading and client.

    Local has one reading; every other method has its own local, its external and the adopted.
    """
    clients = range(len(trial.alphas))
    alone = [slice(client, client + 1) for client in clients]
    groups = alone if by == "client" else [slice(0, len(clients))]
    fixed = {"local": [0.0] * len(clients), "external": [1.0] * len(clients)}
    for reading, members in product(["local"] if trial.method == "local" else READINGS, groups):
        matrices = trial.counts[reading][members]
        counts, nodes = pooled(matrices), [int(matrix.sum()) for matrix in matrices]
        alphas = fixed.get(reading, trial.alphas)[members]
        areas = trial.roc_auc[reading][members] if trial.roc_auc else []
        yield {
            "method": trial.method,
            "seed": trial.seed,
            "reading": reading,
            "client": members.start,
            "test_nodes": sum(nodes),
            **{name: score(counts) for name, score in SCORES.items()},
            "roc_auc": mean_auc(areas, nodes) if areas else None,
            "alpha": fmean(alphas),
            "kept_local": fmean(alpha == 0 for alpha in alphas),
            "upload": fmean(trial.upload[members]),
            "returned": fmean(trial.returned[members]),
            "dense": trial.dense,
            **trial.seconds,
        }


def tidy_frame(trials: Iterable[tuple[Mapping[str, Any], Trial]], by: str) -> "pandas.DataFrame":
    """Trials, each with its key, as a DataFrame: a row for each seed or client."""
    if by not in BY:
        raise SettingError(f"by is {by!r}, expected one of {', '.join(BY)}")
    with needs_extra("a table needs pandas", "report"):
        import pandas
    rows = [{**key, **row} for key, trial in trials for row in score_rows(trial, by)]
    sizes = {"upload": "int64", "returned": "int64"} if by == "client" else {}
    return pandas.DataFrame(rows, columns=list(BY[by])).astype(WHOLE | sizes)


@dataclass(frozen=True)
class Spread:
    """A score over seeds."""

    mean: float
    std: float | None  # the sample standard deviation; None where there is one seed
    per_seed: tuple[float, ...] = ()


@dataclass(frozen=True)
class Summary:
    """One reading of one method over seeds, on the test nodes of all clients together."""

    method: str
    reading: str
    """`local` (α = 0), `external` (α = 1) or `adopted`."""
    spreads: dict[str, Spread]
    """Scores, those that are defined, α and bytes by their name in `score_rows`."""


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


def summarise(trials: Sequence[Trial]) -> list[Summary]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for trial in trials:
        for row in score_rows(trial):
            groups.setdefault((trial.method, row["reading"]), []).append(row)
    summaries = []
    for key, rows in groups.items():
        spreads = {}
        for name in SUMMARISED:
            if values := tuple(row[name] for row in rows if row[name] is not None):
                std = stdev(values) if len(values) > 1 else None
                spreads[name] = Spread(fmean(values), std, values)
        summaries.append(Summary(*key, spreads))
    return summaries
