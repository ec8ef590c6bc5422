"""Rows of length one that travelled along edges: what a linear model on a graph reads.

    h_v = unit( (P^k X')_v ),   X' = sgn(X) |X|^½

The root keeps features that occur often from drowning the others; unit length makes a node with many
neighbours count as one with few. Hop 0 is the node's own features and needs no edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from pace.graph import Graph
from pace.models.operator import Operator, csr_array
from pace.models.propagation import dense_or_sparse, propagation
from pace.models.symbolic import SymbolicGraph

BLOCK = 1024  # rows that are multiplied out together
SHORTEST = 1e-12  # a row of nothing stays nothing


@dataclass(frozen=True, eq=False)
class UnitRows:
    """All rows of a graph at one hop, multiplied out only where they are asked for.

    H W is P^k (X' W) with each row divided by its length, so that the dense (nodes, features) matrix,
    500 MB for CS, never exists.
    """

    propagation: Operator
    features: Operator  # X'
    hop: int
    lengths: Tensor  # of P^k X', (nodes, 1)

    def to(self, device: torch.device | str) -> UnitRows:
        moved = (self.propagation.to(device), self.features.to(device))
        return UnitRows(*moved, self.hop, self.lengths.to(device))

    def __matmul__(self, weights: Tensor) -> Tensor:
        product = self.features @ weights
        for _ in range(self.hop):
            product = self.propagation @ product
        return product / self.lengths

    def __getitem__(self, nodes: Tensor) -> Tensor:
        """The rows of some nodes (a mask or indices), dense."""
        rows = multiplied_out(self.propagation, self.features, self.hop, nodes)
        return rows / self.lengths[nodes]


def unit_rows(graph: Graph, hop: int) -> UnitRows:
    """The rows of a graph at a hop, made once and kept with it."""
    return graph.derived(f"unit rows, hop {hop}", partial(_unit_rows, hop=hop))


def _unit_rows(graph: Graph, hop: int) -> UnitRows:
    features = graph.derived("root of features", _root)
    along = propagation(graph)
    if isinstance(graph, SymbolicGraph):
        rows = features.matrix
        for _ in range(hop):
            rows = along @ rows
        lengths = [rows.norm(dim=1, keepdim=True)]
    else:
        lengths = [
            multiplied_out(along, features, hop, block).norm(dim=1, keepdim=True)
            for block in torch.arange(graph.nodes, device=graph.x.device).split(BLOCK)
        ]
    return UnitRows(along, features, hop, torch.cat(lengths).clamp_min(SHORTEST))


def _root(graph: Graph) -> Operator:
    return dense_or_sparse(graph, graph.x.sign() * graph.x.abs().sqrt())


def multiplied_out(along: Operator, features: Operator, hop: int, nodes: Tensor) -> Tensor:
    """(P^k X')[nodes], dense; sparse products where both are sparse."""
    if hop == 0:
        return features[nodes]
    matrix = csr_array(along.matrix)
    left = matrix[nodes.cpu().numpy()]
    for _ in range(hop - 1):
        left = left @ matrix
    if features.is_sparse:
        product = (left @ csr_array(features.matrix)).toarray()
    else:
        product = left @ features.matrix.cpu().numpy()
    return torch.from_numpy(np.ascontiguousarray(product)).to(features.matrix.device)
