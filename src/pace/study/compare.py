"""Our numbers beside the published ones, and whether a draw of the masks explains the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pace.study.draws import Draws, Key, Redrawn
from pace.study.records import Record, published

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
    def within(self) -> bool | None:
        """Whether the masks can explain the difference; None where nobody measured that.

        The paper's number has to lie where one more draw would fall; of borrowed draws only the
        spread counts, and the difference has to be one between two draws.
        """
        if self.paper is None or self.difference is None or self.draws is None:
            return None
        if self.borrowed:
            return abs(self.difference) <= self.draws.apart
        low, high = self.draws.interval
        return low <= self.paper.mean <= high


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
