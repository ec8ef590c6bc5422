"""Rows of length one that travelled along edges: what a linear model on a graph reads.

    h_v = unit( (P^k X')_v ),   X' = sgn(X) |X|^½

The root keeps features that occur often from drowning the others; unit length makes a node with many
neighbours count as one with few. Hop 0 is the node's own features and needs no edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

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
    sparse_features = features.is_sparse
    inner = csr_array(features.matrix) if sparse_features else features.matrix.cpu().numpy()
    product = _product(csr_array(along.matrix), inner, hop, nodes.cpu().numpy())
    dense = product.toarray() if sparse_features else np.ascontiguousarray(product)
    return torch.from_numpy(dense).to(features.matrix.device)


def _product(matrix: Any, features: Any, hop: int, nodes: Any) -> Any:
    """(P^k X')[nodes] by P (P … X') on the rows that are reached, or by P P first if that costs less."""
    left = matrix[nodes]
    for remaining in range(hop - 1, 0, -1):
        reached = np.unique(left.indices)
        if _costs_less(left, matrix, reached, features):
            left = left @ matrix
        else:
            return left[:, reached] @ _product(matrix, features, remaining, reached)
    return left @ features


def _costs_less(left: Any, matrix: Any, reached: Any, features: Any) -> bool:
    """Whether (left P) X' takes fewer multiplications than left (P X'), by the entries of each."""
    degrees = np.diff(matrix.indptr)
    width = features.nnz / max(1, len(degrees)) if hasattr(features, "nnz") else features.shape[1]
    neighbours = int(degrees[left.indices].sum())
    rows = int(degrees[reached].sum())
    wider = min(features.shape[1], width * rows / max(1, len(reached)))
    return bool(neighbours * (1 + width) <= rows * width + left.nnz * wider)
