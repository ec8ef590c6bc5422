"""Every model on every graph: Local, FedAvg+CNLL and PACE, and what propagated moments are worth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from pace.reports.trial import Trial, auc
from pace_study.cell import Cell, Store
from pace_study.formats import TidyRow
from pace_study.records import score, title
from pace_study.study import CALIBRATED, LOCAL, MODEL_PARTS, PACE, PARTS, RAW, Part, Row

if TYPE_CHECKING:
    from rich.console import Console

ORDER = ("gcn", "sage", "gin", "gat", "sgc", "appnp", "mlp")
HEADS = ("Graph", "Model", "Local", "FedAvg+CNLL", "PACE", "PACE − Local", "mean α")
GEOMETRY_HEADS = ("Graph", "Model", "External", "adopted", "draws won")


@dataclass(frozen=True)
class Line:
    """One model on one graph: scores in percent by row, seed by seed, and PACE's alphas."""

    dataset: str
    model: str
    metric: str
    local: Sequence[float]
    average: Sequence[float]
    pace: Sequence[float]
    alpha: float

    @property
    def gains(self) -> list[float]:
        return [ours - alone for ours, alone in zip(self.pace, self.local, strict=True)]


@dataclass(frozen=True)
class Geometry:
    """PACE with propagated moments minus PACE with raw ones, in points, draw by draw."""

    dataset: str
    model: str
    external: Sequence[float]
    adopted: Sequence[float]


def lines(store: Store, seeds: Sequence[int]) -> Iterator[Line]:
    """Everything stored of the parts that compare models; ROC AUC too where there are two classes."""
    for part in (PARTS[name] for name in MODEL_PARTS if name != "models-masks"):
        for dataset, metric in product(reversed(part.datasets), ("accuracy", "roc_auc")):
            for model in sorted(part.models, key=ORDER.index):
                rows = [_trials(part, row, dataset, model, store, seeds) for row in _shown()]
                if not all(rows):
                    continue
                alpha = statistics.fmean(alpha for trial in rows[-1] for alpha in trial.alphas)
                if metric == "roc_auc" and not rows[-1][0].roc_auc:
                    continue
                local, average, ours = (
                    [_score(trial, row.reading, metric) for trial in trials]
                    for row, trials in zip(_shown(), rows, strict=True)
                )
                yield Line(dataset, model, metric, local, average, ours, alpha)


def geometries(store: Store, seeds: Sequence[int]) -> Iterator[Geometry]:
    """What propagated moments change, over redrawn masks."""
    part = PARTS["models-masks"]
    for dataset in reversed(part.datasets):
        for model in sorted(part.models, key=ORDER.index):
            ours, raw = (
                _trials(part, row, dataset, model, store, part.seeds(seeds)) for row in (PACE, RAW)
            )
            if not ours or not raw:
                continue
            differences = [
                [
                    score(one, reading, "accuracy") - score(other, reading, "accuracy")
                    for one, other in zip(ours, raw, strict=True)
                ]
                for reading in ("external", "adopted")
            ]
            yield Geometry(dataset, model, *differences)


def _shown() -> tuple[Row, Row, Row]:
    return LOCAL, CALIBRATED[0], PACE


def _trials(
    part: Part, row: Row, dataset: str, model: str, store: Store, seeds: Sequence[int]
) -> list[Trial]:
    """All trials of a row, or none."""
    cells = [
        Cell(dataset, part.partition, part.clients[0], row.method, row.rank, seed, draw, model)
        for draw in part.data_seeds
        for seed in seeds
    ]
    found = [trial for cell in cells if (trial := store.read(cell)) is not None]
    return found if len(found) == len(cells) else []


def _score(trial: Trial, reading: str, metric: str) -> float:
    if metric == "roc_auc":
        return 100 * (auc(trial, reading) or 0.0)
    return score(trial, reading, metric)


def words(line: Line) -> list[str]:
    what = title(line.dataset) + (" (ROC AUC)" if line.metric == "roc_auc" else "")
    return [
        what,
        line.model,
        *(spread(values) for values in (line.local, line.average, line.pace)),
        spread(line.gains, "+.2f"),
        f"{line.alpha:.2f}",
    ]


def geometry_words(found: Geometry) -> list[str]:
    won = sum(value > 0 for value in found.adopted)
    return [
        title(found.dataset),
        found.model,
        with_error(found.external),
        with_error(found.adopted),
        f"{won} of {len(found.adopted)}",
    ]


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Mean ± sample standard deviation over seeds."""
    if len(values) < 2:
        return f"{values[0]:{form}}"
    return f"{statistics.fmean(values):{form}} ± {statistics.stdev(values):.2f}"


def with_error(values: Sequence[float]) -> str:
    """Mean ± standard error over draws."""
    if len(values) < 2:
        return f"{values[0]:+.2f}"
    error = statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.fmean(values):+.2f} ± {error:.2f}"


def markdown(store: Store, seeds: Sequence[int]) -> str:
    """Both tables, as they stand in docs/models.md."""
    many = f"{len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    blocks = [
        f"Pooled test accuracy in percent, mean ± standard deviation over {many}; gains are paired "
        "by seed.\n\n" + table(HEADS, [words(line) for line in lines(store, seeds)])
    ]
    if found := [geometry_words(each) for each in geometries(store, seeds)]:
        draws = len(PARTS["models-masks"].data_seeds)
        blocks.append(
            f"Propagated minus raw moments, points of accuracy, mean ± standard error over {draws} "
            "draws of the masks; External is the returned model alone (α = 1).\n\n"
            + table(GEOMETRY_HEADS, found)
        )
    return "\n\n".join(blocks) + "\n"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown; a graph is named where its rows begin."""
    text = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    before = ""
    for first, *rest in rows:
        text.append("| " + " | ".join([first if first != before else "", *rest]) + " |")
        before = first
    return "\n".join(text)


def tidy(store: Store, seeds: Sequence[int]) -> list[TidyRow]:
    """One row a graph, model, metric, reading and seed."""
    rows: list[TidyRow] = []
    for line in lines(store, seeds):
        for method, values in (
            ("local", line.local),
            ("fedavg+cnll", line.average),
            ("pace", line.pace),
        ):
            rows += [
                {
                    "dataset": line.dataset,
                    "model": line.model,
                    "metric": line.metric,
                    "method": method,
                    "seed": seed,
                    "value": value,
                }
                for seed, value in zip(seeds, values, strict=True)
            ]
    return rows


def show(store: Store, seeds: Sequence[int], console: Console) -> None:
    """Both tables in a terminal."""
    from pace.reports.table import Table

    rows = [words(line) for line in lines(store, seeds)]
    Table.of("Models", HEADS, rows, words=0).show(console)
    found = [geometry_words(each) for each in geometries(store, seeds)]
    if found:
        Table.of("Propagated − raw", GEOMETRY_HEADS, found, words=0).show(console)
