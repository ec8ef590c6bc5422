"""Nodes as a table of rows: all that a closed form reads of a graph, without its edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from pace.graph import Graph


@dataclass(frozen=True, eq=False)
class RowTable(Graph):
    """Labels, masks and the rows of some nodes; where they are a sample, `stream` reads them all.

    `x` and `edges` are empty; the rest is checked where a table is made.
    """

    has_edges: ClassVar[bool] = False

    maps: Mapping[str, Tensor] = field(default_factory=dict)  # by name, each (nodes, columns)
    stream: Callable[[], Iterator[RowTable]] | None = None
    counts: Tensor | None = None  # training nodes of each class, of all rows
    identity: str = ""  # of the files it is read from

    def __post_init__(self) -> None:
        pass

    @classmethod
    def of(
        cls,
        y: Tensor,
        split: Tensor,
        maps: Mapping[str, Tensor],
        features: int,
        stream: Callable[[], Iterator[RowTable]] | None = None,
        counts: Tensor | None = None,
        identity: str = "",
    ) -> RowTable:
        """A table of labels (nodes,) and splits: 0 train, 1 val, 2 test, else none."""
        blank, edges = torch.zeros(1, 1).expand(len(y), features), torch.zeros(2, 0).long()
        train, val, test = (split == number for number in range(3))
        table = cls(blank, edges, y, train, val, test=test)
        return replace(table, maps=maps, stream=stream, counts=counts, identity=identity)

    def blocks(self) -> Iterator[RowTable]:
        """All rows, some at a time."""
        return iter([self]) if self.stream is None else self.stream()

    def parts(self) -> dict[str, Tensor]:
        """Everything that a row has, by name."""
        return {"y": self.y, "split": self.split, **self.maps}

    def training_counts(self, classes: int) -> Tensor:
        return super().training_counts(classes) if self.counts is None else self.counts

    @property
    def fingerprint(self) -> str:
        return self.identity
