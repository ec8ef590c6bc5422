"""Every score of the study as one table: a row for each cell and reading, in percent and points."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from typing import Any, Self

import numpy as np
import pandas as pd

from pace.reports import READINGS
from pace.task import mean_auc
from pace_study.cell import KEY, STEPS, Store, confusions
from pace_study.study import SHARES, Part, Row

Array = np.ndarray[Any, Any]

SCORES = ("accuracy", "weighted_f1", "macro_f1")
DENSE = 0  # the rank of dense messages in the table, which has no missing numbers
SETTING = ["dataset", "partition", "clients"]
COLUMNS = [*KEY, "reading", *SCORES, *SHARES, "roc_auc", "ece", "upload", "returned", "seconds"]
COLUMNS += ["alphas", "local", "gains", "hits", "nodes"]  # arrays, one number a receiver
TIE = 0.01  # points: a smaller difference is a tie (the paper's tolerance)
LEVEL = 0.95
MAJORITY = 0.6  # of the trials: three of five seeds, six of ten draws


def score_cells(store: Store) -> pd.DataFrame:
    """All cells of a store; `gains` are receivers' accuracies less those of their `local`, in points."""
    rows = [line for row in store.rows.values() for line in _readings(row)]
    return pd.DataFrame(rows, columns=COLUMNS)


def _readings(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a stored cell's row says of each reading."""
    alphas = np.array(row["alphas"])
    counts = {reading: confusions(row[reading], len(alphas)) for reading in READINGS}
    hits = {reading: np.trace(confusion, axis1=1, axis2=2) for reading, confusion in counts.items()}
    local, nodes = accuracies(counts["local"]), counts["local"].sum((1, 2))
    shared = {name: row[name] for name in KEY} | {
        "rank": row["rank"] or DENSE,
        "mean_alpha": alphas.mean(),
        "alpha_zero_percent": 100 * (alphas == 0).mean(),
        "upload_percent": 100 * np.mean(row["upload"]) / row["dense"],
        "downlink_percent": 100 * np.mean(row["returned"]) / row["dense"],
        "upload": sum(row["upload"]),
        "returned": sum(row["returned"]),
        "seconds": sum(row[step] or 0.0 for step in STEPS),
        "alphas": alphas,
        "local": hits["local"] / np.maximum(nodes, 1),
        "nodes": nodes,
    }
    errors = row["ece"] or [np.nan] * len(READINGS)
    for index, (reading, confusion) in enumerate(counts.items()):
        areas = row["roc_auc"] and row["roc_auc"][index]
        yield {
            **shared,
            **score(confusion.sum(0)),
            "reading": reading,
            "roc_auc": 100 * (mean_auc(areas, nodes.tolist()) or 0.0) if areas else np.nan,
            "gains": 100 * (accuracies(confusion) - local),
            "ece": errors[index],
            "hits": hits[reading],
        }


def accuracies(counts: Array) -> Array:
    """Of each confusion matrix, as `pace.task.accuracy` rounds it."""
    hits = np.trace(counts, axis1=-2, axis2=-1).astype(np.float32)
    nodes = np.maximum(counts.sum((-2, -1)), 1).astype(np.float32)
    return np.asarray(hits / nodes, dtype=float)


def score(counts: Array) -> dict[str, float]:
    """The three scores of one confusion matrix, in percent."""
    support = counts.sum(1)
    f1 = 2 * counts.diagonal() / np.maximum(counts.sum(0) + support, 1)
    return {
        "accuracy": 100 * float(accuracies(counts)),
        "weighted_f1": 100 * float((f1 * support).sum() / max(support.sum(), 1)),
        "macro_f1": 100 * float(f1.mean()),
    }


def of_rows(scores: pd.DataFrame, rows: Iterable[Row]) -> pd.DataFrame:
    """The scores that a table's rows read, with their labels, in the rows' order."""
    table = pd.DataFrame(map(astuple, rows), columns=["label", "method", "reading", "rank"])
    table = table.fillna({"rank": DENSE}).astype({"rank": int})
    return table.merge(scores, on=["method", "reading", "rank"])


def of_part(
    scores: pd.DataFrame,
    part: Part,
    seeds: Sequence[int],
    rows: Iterable[Row] | None = None,
    *,
    fewest: int | None = None,
) -> pd.DataFrame:
    """What a part shows: only rows, on a dataset and number of clients, of which all seeds are there.

    On every draw, or with `fewest` on the draws that are whole, where they are so many. By draw and
    seed, then in the order of the part's datasets and clients.
    """
    wanted = part.seeds(seeds)
    cells = scores[
        (scores.partition == part.partition)
        & scores.dataset.isin(part.datasets)
        & scores.clients.isin(part.clients)
        & scores.model.isin(part.models)
        & scores.data_seed.isin(part.data_seeds)
        & scores.seed.isin(wanted)
    ]
    trials, line = of_rows(cells, part.rows if rows is None else rows), [*SETTING, "model", "label"]
    trials = trials[trials.groupby([*line, "data_seed"]).seed.transform("size") == len(wanted)]
    draws = trials.groupby(line).data_seed.transform("nunique")
    trials = trials[draws >= (fewest or len(part.data_seeds))]
    order = {name: index for index, name in enumerate([*part.datasets, *wanted])}
    return trials.sort_values(
        ["data_seed", "seed", "dataset", "clients"],
        key=lambda column: column.map(order) if column.name in ("dataset", "seed") else column,
        kind="stable",
    )


@dataclass(frozen=True)
class Draws:
    """A number on each redraw of the masks, each over the same seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def std(self) -> float:
        return float(np.std(self.values, ddof=1))

    @property
    def interval(self) -> tuple[float, float]:
        """Where one more draw falls with 95 %: mean ± t s sqrt(1 + 1/n)."""
        half = student_t(len(self.values)) * self.std * (1 + 1 / len(self.values)) ** 0.5
        return self.mean - half, self.mean + half


@dataclass(frozen=True)
class Harm:
    """Receivers that lose nodes on at least three of five trials."""

    harmed: int
    by_more: int  # of them, those that lose more than one node on average
    receivers: int

    @classmethod
    def of(cls, nodes: Array, same: bool = True) -> Self:
        """From nodes gained (trials, receivers); `same` receivers in every trial, or new ones."""
        nodes = np.asarray(nodes, dtype=float)
        if not same:
            nodes = nodes.reshape(1, -1)
        lost = (nodes < 0).mean(0) >= MAJORITY
        return cls(int(lost.sum()), int((lost & (nodes.mean(0) < -1)).sum()), nodes.shape[1])

    @classmethod
    def total(cls, harms: Iterable[Self]) -> Self:
        """Over several settings."""
        return cls(*map(sum, zip((0, 0, 0), *map(astuple, harms), strict=True)))

    @property
    def percent(self) -> float:
        return 100 * self.harmed / max(1, self.receivers)

    def __str__(self) -> str:
        return f"{self.harmed} of {self.receivers} ({self.by_more})"


@cache
def student_t(count: int) -> float:
    """The quantile of Student's t for so many values."""
    from scipy.stats import t

    return float(t.ppf((1 + LEVEL) / 2, count - 1))


def t_interval(values: Sequence[float] | pd.Series) -> tuple[float, float]:
    """mean ± t · s / √n; a single value has no interval."""
    if len(values) < 2:
        return np.nan, np.nan
    half = student_t(len(values)) * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return float(np.mean(values)) - half, float(np.mean(values)) + half


def win_tie_loss(differences: Iterable[float]) -> tuple[int, int, int]:
    """How many are above, within and below the tolerance."""
    values = np.array(list(differences))
    wins, losses = int((values > TIE).sum()), int((values < -TIE).sum())
    return wins, len(values) - wins - losses, losses
