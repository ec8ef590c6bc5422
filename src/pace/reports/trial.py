"""One method on one seed: as data, as JSON, and as rows of one tidy table of scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pace.errors import SettingError
from pace.protocol.steps import Adoption
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

    def plain(self) -> dict[str, object]:
        """As JSON has it; a confusion matrix is text, `12 0 3;0 5 1;2 0 9`, a row a true class."""
        confusions = {
            reading: [";".join(" ".join(map(str, row)) for row in each.tolist()) for each in counts]
            for reading, counts in self.counts.items()
        }
        left_out = {"counts"} if self.roc_auc else {"counts", "roc_auc"}
        rest = {key: value for key, value in vars(self).items() if key not in left_out}
        return {**rest, "confusions": confusions}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Trial:
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


def readings(method: str) -> list[str]:
    """Local has one reading; every other method has its own local, its external and the adopted."""
    return ["local"] if method == "local" else list(READINGS)


def score_rows(
    trial: Trial, by: str = "seed", key: Mapping[str, Any] | None = None
) -> Iterator[Row]:
    """A row for each reading, all clients' test nodes together, or for each reading and client."""
    clients = range(len(trial.alphas))
    groups = [clients] if by == "seed" else [range(client, client + 1) for client in clients]
    fixed = {"local": [0.0] * len(clients), "external": [1.0] * len(clients)}
    for reading, group in product(readings(trial.method), groups):
        members = slice(group.start, group.stop)
        matrices = trial.counts[reading][members]
        counts, nodes = pooled(matrices), [int(matrix.sum()) for matrix in matrices]
        alphas = fixed.get(reading, trial.alphas)[members]
        areas = trial.roc_auc[reading][members] if trial.roc_auc else []
        yield {
            **(key or {}),
            "method": trial.method,
            "seed": trial.seed,
            "reading": reading,
            "client": group.start,
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


def tidy_frame(trials: Iterable[tuple[Mapping[str, Any], Trial]], by: str) -> pandas.DataFrame:
    """Trials, each with its key, as a DataFrame: a row for each seed or client."""
    if by not in BY:
        raise SettingError(f"by is {by!r}, expected one of {', '.join(BY)}")
    try:
        import pandas
    except ImportError:
        raise SettingError(
            "results as a table need pandas: pip install 'pace-fgl[report]'"
        ) from None
    rows = [row for key, trial in trials for row in score_rows(trial, by, key)]
    sizes = {"upload": "int64", "returned": "int64"} if by == "client" else {}
    return pandas.DataFrame(rows, columns=list(BY[by])).astype(WHOLE | sizes)
