"""A graph whose tensors have no numbers yet, as `torch.export` traces a model: plain torch alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pace.graph import UNKNOWN, Graph
from pace.models.operator import Operator


class SymbolicGraph(Graph):
    """Features, edges and edge weights that a traced program will be given; nothing to check yet."""

    def __post_init__(self) -> None:
        pass

    @classmethod
    def of(cls, x: Tensor, edges: Tensor, weights: Tensor) -> SymbolicGraph:
        none = torch.zeros(x.shape[0], dtype=torch.bool, device=x.device)
        labels = torch.full((x.shape[0],), UNKNOWN, device=x.device)
        return cls(x, edges, labels, none, none, none, weights, directed=True)


@dataclass(frozen=True, eq=False)
class Entries(Operator):
    """A square sparse matrix by its entries; `matrix` are their values."""

    rows_of: Tensor
    columns_of: Tensor
    nodes: int

    @property
    def shape(self) -> torch.Size:
        return torch.Size((self.nodes, self.nodes))

    def times(self, factor: float) -> Entries:
        return Entries(self.matrix * factor, self.rows_of, self.columns_of, self.nodes)

    def __matmul__(self, dense: Tensor) -> Tensor:
        messages = self.matrix[:, None] * dense.index_select(0, self.columns_of)
        return added_up(messages, self.rows_of, self.nodes)


def added_up(messages: Tensor, targets: Tensor, nodes: int) -> Tensor:
    """At every node the sum of the messages that arrive, (nodes, width)."""
    zeros = messages.new_zeros((nodes, messages.shape[1]))
    return zeros.index_add(0, targets, messages)
