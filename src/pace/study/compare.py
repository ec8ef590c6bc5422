"""Our numbers beside the published ones, and how far a draw of the masks alone moves them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pace.study.cell import Cell, Store
from pace.study.records import Record, published, score, title
from pace.study.study import PARTS, Part

WITHIN = 2.0  # standard deviations of the mask draw that count as explained by it

Spread = Mapping[tuple[str, str, str], float]  # dataset, row's label, metric -> std over redraws


@dataclass(frozen=True)
class Twin:
    """A number of ours, the paper's, and the spread that redrawing the masks gives."""

    ours: Record
    paper: Record | None
    spread: float | None

    @property
    def difference(self) -> float | None:
        return None if self.paper is None else self.ours.mean - self.paper.mean

    @property
    def within(self) -> bool | None:
        """Whether the mask draw can explain the difference; None where nobody measured that."""
        if self.difference is None or self.spread is None:
            return None
        return abs(self.difference) <= WITHIN * self.spread


def twins(part: Part, records: Sequence[Record], spread: Spread) -> list[Twin]:
    """Each of our records with its published twin."""
    paper = {record.key: record for record in published()}
    return [
        Twin(record, paper.get(record.key), spread.get(_spread_key(record))) for record in records
    ]


def _spread_key(record: Record) -> tuple[str, str, str]:
    """PACE is called by several names; the spread of its score is one."""
    label = {"Full PACE": "PACE", "Transport + CNLL": "PACE", "PACE rank 6": "PACE"}
    return record.dataset, label.get(record.method, record.method), record.metric


def mask_spread(
    part: Part, store: Store, seeds: Sequence[int]
) -> dict[tuple[str, str, str], float]:
    """Over redraws of the masks: the standard deviation of each redraw's mean over seeds."""
    spread = {}
    for dataset in part.datasets:
        for row in part.rows:
            for metric in (*part.metrics, "macro_f1"):
                means = []
                for data_seed in part.data_seeds:
                    cells = [
                        Cell(
                            dataset,
                            part.partition,
                            part.clients[0],
                            row.method,
                            row.rank,
                            seed,
                            data_seed,
                        )
                        for seed in seeds
                    ]
                    found = [trial for cell in cells if (trial := store.read(cell))]
                    if found:
                        scores = [score(trial, row.reading, metric) for trial in found]
                        means.append(statistics.fmean(scores))
                if len(means) > 1:
                    spread[title(dataset), row.label, metric] = statistics.stdev(means)
    return spread


def known_spread(store: Store, seeds: Sequence[int]) -> dict[tuple[str, str, str], float]:
    """The spread that `pace reproduce masks` has measured, as far as it has."""
    return mask_spread(PARTS["masks"], store, seeds)
