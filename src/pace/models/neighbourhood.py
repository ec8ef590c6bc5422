"""Rows that hold a node and its neighbours apart, and rows of its neighbours' known labels.

    neighbourhood   unit( [ h | Mh | MMh | degree ] )        3d + 4 columns
    known labels    [ y1 | n1 | y2 | n2 | 1/5 | 1/5 ]        2C + 4 columns

h is the node's own unit row, M the mean over neighbours without the node itself. Where neighbours
differ from a node, a linear model can tell the two apart, which P^k X cannot. y1 is the share of each
class among a node's labelled neighbours, y2 the same at two steps without the ways back to the node:
a node's own label is never among its columns. n1 and n2 are log(1 + how many there were) / 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pace.graph import Graph
from pace.models.operator import Operator
from pace.models.propagation import neighbour_mean, neighbour_sum
from pace.models.symbolic import SymbolicGraph
from pace.models.unit_rows import SHORTEST, UnitRows, unit_rows

COLUMNS = 64  # features that are multiplied out together: memory is nodes times these
DEGREE_COLUMNS = 4
SHRINK = 5.0  # of the columns that are not features, beside features of length one


@dataclass(frozen=True, eq=False)
class NeighbourhoodRows:
    """The rows of all nodes, multiplied out only where they are asked for.

    Cost: edges · features for the lengths, edges · columns for a product; memory of one block of
    columns for every node.
    """

    own: UnitRows
    mean: Operator  # M
    degrees: Tensor  # (nodes, 4)
    lengths: Tensor  # (nodes, 1)

    def __matmul__(self, weights: Tensor) -> Tensor:
        features = self.own.features.shape[1]
        own, near, far, degrees = weights.split([features] * 3 + [DEGREE_COLUMNS])
        along = self.mean @ (self.own @ near + self.mean @ (self.own @ far))
        product: Tensor = self.own @ own + along + self.degrees @ degrees
        return product / self.lengths

    def __getitem__(self, nodes: Tensor) -> Tensor:
        """The rows of some nodes (a mask or indices), dense."""
        blocks = [tuple(part[nodes] for part in parts) for parts in self._blocks()]
        parts = [torch.cat(columns, 1) for columns in zip(*blocks, strict=True)]
        return torch.cat([*parts, self.degrees[nodes]], 1) / self.lengths[nodes]

    def _blocks(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Own, neighbours' and their neighbours' mean of a few features at a time, for all nodes."""
        features = self.own.features
        identity = torch.eye(COLUMNS, device=features.matrix.device)
        for first in range(0, features.shape[1], COLUMNS):
            count = min(COLUMNS, features.shape[1] - first)
            chosen = identity.new_zeros(features.shape[1], count)
            chosen[first : first + count] = identity[:count, :count]
            own = self.own @ chosen
            near = self.mean @ own
            yield own, near, self.mean @ near


def neighbourhood_rows(graph: Graph) -> NeighbourhoodRows:
    """The neighbourhood rows of a graph, made once and kept with it."""
    return graph.derived("neighbourhood rows", _neighbourhood_rows)


def _neighbourhood_rows(graph: Graph) -> NeighbourhoodRows:
    own, mean = unit_rows(graph, 0), neighbour_mean(graph)
    count = degrees_of(graph)
    logarithm = count.log1p()
    degrees = torch.cat(
        [logarithm, logarithm.square(), count.clamp_min(1).rsqrt(), torch.ones_like(count)], 1
    )
    degrees = degrees / SHRINK
    rows = NeighbourhoodRows(own, mean, degrees, torch.ones_like(count))
    squares = degrees.square().sum(1, keepdim=True)
    for parts in rows._blocks():
        squares = squares + sum(part.square().sum(1, keepdim=True) for part in parts)
    return NeighbourhoodRows(own, mean, degrees, squares.sqrt().clamp_min(SHORTEST))


def degrees_of(graph: Graph) -> Tensor:
    """How many neighbours each node has, (nodes, 1)."""
    nodes = graph.x.shape[0] if isinstance(graph, SymbolicGraph) else graph.nodes
    return neighbour_sum(graph, 0.0) @ graph.x.new_ones(nodes, 1)


def ways_back(graph: Graph) -> Tensor:
    """How many ways of two steps lead from each node back to itself, (nodes, 1)."""
    if not graph.directed:
        return degrees_of(graph)
    source, target = graph.edges
    both = torch.isin(source * graph.nodes + target, target * graph.nodes + source)
    count = torch.bincount(target[both], minlength=graph.nodes)
    return count.to(graph.x.dtype)[:, None]


def label_rows(graph: Graph, known: Tensor, classes: int) -> Tensor:
    """What a node's neighbours are known to be, (nodes, 2 classes + 4).

    Args:
        graph: the graph.
        known: which labels may be read, (nodes,) bool.
        classes: C.
    """
    labels = graph.x.new_zeros(graph.nodes, classes + 1)
    nodes = known.nonzero().flatten()
    labels[nodes, graph.y[nodes]] = 1
    labels[nodes, classes] = 1
    neighbours = neighbour_sum(graph, 0.0)
    near = neighbours @ labels
    far = neighbours @ near - ways_back(graph) * labels
    shares = [column for sums in (near, far) for column in _shares(sums)]
    return torch.cat([*shares, graph.x.new_full((graph.nodes, 2), 1 / SHRINK)], 1)


def _shares(sums: Tensor) -> tuple[Tensor, Tensor]:
    """The share of each class, and how many labels there were."""
    count = sums[:, -1:]
    return sums[:, :-1] / count.clamp_min(1), count.log1p() / SHRINK
