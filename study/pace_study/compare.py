"""Our numbers beside the published ones, and whether a draw of the masks explains the difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pace.protocol.federation import SEEDS
from pace_study.draws import Draws, Key, Redrawn, student_t
from pace_study.records import Record, published

PRINTED = 0.005  # points: what rounding to two digits hides
SAME = {  # labels of one row in several tables -> its label among the redraws
    "Full PACE": "PACE",
    "Transport + CNLL": "PACE",
    "PACE rank 6": "PACE",
    "Transport": "Transport (alpha=1)",
    "Local+CNLL": "Local",
}


@dataclass(frozen=True)
class Twin:
    """A number of ours, the paper's, and what redrawing the masks does to ours.

    `borrowed` draws are of the same row with ten Louvain clients: those of its own setting were not
    made.
    """

    ours: Record
    paper: Record | None
    draws: Draws | None = None
    borrowed: bool = False

    @property
    def difference(self) -> float | None:
        return None if self.paper is None else self.ours.mean - self.paper.mean

    @property
    def reach(self) -> float | None:
        """How far two draws of the masks and two sets of seeds are apart at most, with 95 %.

        t sqrt(2 s² + (σ² + σ'²) / 5),   s over draws, σ and σ' over our seeds and the paper's
        """
        if self.draws is None or self.paper is None:
            return None
        seeds = sum((record.std or 0.0) ** 2 for record in (self.ours, self.paper))
        both = 2 * self.draws.std**2 + seeds / len(SEEDS)
        return student_t(len(self.draws.values)) * math.sqrt(both)

    @property
    def within(self) -> bool | None:
        """Whether draws and seeds can explain the difference; None where nobody measured that."""
        if self.difference is None or self.reach is None:
            return None
        return abs(self.difference) <= self.reach + PRINTED


def twins(records: Sequence[Record], redrawn: Redrawn) -> list[Twin]:
    """Each of our records with its published twin and its redraws."""
    paper = {record.key: record for record in published()}
    found = []
    for record in records:
        own, other = _keys(record)
        draws = redrawn.get(own) or redrawn.get(other)
        found.append(Twin(record, paper.get(record.key), draws, own not in redrawn))
    return found


def _keys(record: Record) -> tuple[Key, Key]:
    """Its key among the redraws, and that of ten Louvain clients."""
    row = record.dataset, SAME.get(record.method, record.method), record.metric
    return (*row, record.partition, record.clients), (*row, "louvain", 10)
