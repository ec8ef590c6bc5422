"""Records: every number of the study in one form, the paper's and ours."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path

from pace.reports.trial import Trial
from pace.task import SCORES, pooled
from pace_study.cell import Cell, Store
from pace_study.study import CITATION, Part, Row


@dataclass(frozen=True)
class Record:
    """One number of one table; percent where it is a share."""

    table: str
    dataset: str  # as the paper prints it
    method: str  # the row's label
    metric: str
    mean: float
    std: float | None  # sample standard deviation over seeds
    partition: str
    clients: int

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What the same number is called in the paper and here."""
        return self.table, self.dataset, self.method, self.metric, self.clients


TITLES = {
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "cs": "CS",
    "computers": "Computers",
    "ogbn-arxiv": "ogbn-arxiv",
}
CITATION_MEAN = "Cora+CiteSeer+PubMed mean"  # the rank table's bytes are averaged over these


def title(dataset: str) -> str:
    """The paper's name of a dataset; a file of one's own goes by its stem."""
    return TITLES.get(dataset, Path(dataset).stem if dataset.endswith(".graph") else dataset)


@cache
def published() -> tuple[Record, ...]:
    """The paper's numbers."""
    text = resources.files("pace_study").joinpath("paper.json").read_text(encoding="utf-8")
    return tuple(Record(**record) for record in json.loads(text)["records"])


def score(trial: Trial, reading: str, metric: str) -> float:
    """One number of one trial."""
    if metric in SCORES:
        return 100 * SCORES[metric](pooled(trial.counts[reading]))
    return {
        "mean_alpha": statistics.fmean(trial.alphas),
        "alpha_zero_percent": 100 * statistics.fmean(alpha == 0 for alpha in trial.alphas),
        "upload_percent": 100 * statistics.fmean(trial.upload) / trial.dense,
        "downlink_percent": 100 * statistics.fmean(trial.returned) / trial.dense,
    }[metric]


def trials(
    part: Part, row: Row, dataset: str, clients: int, store: Store, seeds: Sequence[int]
) -> list[Trial]:
    """A row's stored trials, seed by seed; empty unless all seeds are there."""
    cells = [
        Cell(dataset, part.partition, clients, row.method, row.rank, seed, data_seed)
        for data_seed in part.data_seeds
        for seed in part.seeds(seeds)
    ]
    found = [trial for cell in cells if (trial := store.read(cell)) is not None]
    return found if len(found) == len(cells) else []


def measured(part: Part, store: Store, seeds: Sequence[int]) -> list[Record]:
    """The numbers of a part's table that the stored cells give."""
    records = []
    for dataset in part.datasets:
        for clients in part.clients:
            for row in part.rows:
                found = trials(part, row, dataset, clients, store, seeds)
                for metric in part.metrics if found else ():
                    values = [score(trial, row.reading, metric) for trial in found]
                    records.append(record(part, row, title(dataset), metric, values, clients))
    if part.name == "rank":
        records += rank_bytes(part, store, seeds)
    return records


def record(
    part: Part, row: Row, dataset: str, metric: str, values: Sequence[float], clients: int
) -> Record:
    std = statistics.stdev(values) if len(values) > 1 else None
    mean = statistics.fmean(values)
    return Record(part.table, dataset, row.label, metric, mean, std, part.partition, clients)


def rank_bytes(part: Part, store: Store, seeds: Sequence[int]) -> list[Record]:
    """The rank table's two columns of bytes, averaged over the three datasets of the paper's."""
    records = []
    for row in part.rows:
        each = [trials(part, row, name, part.clients[0], store, seeds) for name in part.datasets]
        whole = all(each) and set(part.datasets) == set(CITATION)
        for metric in ("upload_percent", "downlink_percent") if whole else ():
            values = [score(found[0], row.reading, metric) for found in each]
            mean = record(part, row, CITATION_MEAN, metric, values, part.clients[0])
            records.append(replace(mean, std=None))
    return records
