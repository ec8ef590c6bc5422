"""Rows of length one that travelled along edges: what a linear model on a graph reads.

    unit rows       h_v = unit( (P^k X')_v ),  X' = sgn(X) |X|^½      d columns
    neighbourhood   unit( [ h | Mh | MMh | degree ] )                 3d + 4 columns
    known labels    [ y1 | n1 | y2 | n2 | 1/5 | 1/5 ]                 2C + 4 columns

The root keeps features that occur often from drowning the others; unit length makes a node with many
neighbours count as one with few. Hop 0 is the node's own features and needs no edge.

M is the mean over neighbours without the node itself. Where neighbours differ from a node, a linear
model can tell h and Mh apart, which P^k X cannot. y1 is the share of each class among a node's
labelled neighbours, y2 the same at two steps without the ways back to the node: a node's own label is
never among its columns. n1 and n2 are log(1 + how many there were) / 5.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from pace.errors import GraphError
from pace.graph import Graph
from pace.models import propagation as travel
from pace.models.base import Later
from pace.models.mapped import READ, MappedGraph, RowTable, digest_of
from pace.models.operator import Operator, csr_array
from pace.models.refitted import fitted_nodes

NEIGHBOURHOOD, LABELS = "neighbourhood", "labels"  # the maps beside `hop0`, `hop1`, …

BLOCK = 1024  # rows that are multiplied out together
COLUMNS = 64  # features that are multiplied out together: memory is nodes times these
SHORTEST = 1e-12  # a row of nothing stays nothing
SPARSE_COST = 10  # of an entry of a sparse product, against one of a dense one
SHRINK = 5.0  # of the columns that are not features, beside features of length one


def rows_by(name: str, fit: str, graph: Graph, classes: int) -> Any:
    """The rows of all nodes by a map, to index by nodes and to multiply by weights.

    A graph in memory multiplies out what is asked for, one in a folder stores what travels, and a table
    brings its rows. Of `labels` those of the fit's nodes are known.
    """
    if isinstance(graph, RowTable):
        rows = graph.maps[row_key(name, fit)]
        return rows if name == LABELS else normalize(rows, eps=SHORTEST)
    if name == LABELS:
        return label_rows(graph, fitted_nodes(graph, fit), classes)
    if name == NEIGHBOURHOOD:
        return neighbourhood_rows(graph)
    return unit_rows(graph, int(name.removeprefix("hop")))


def row_key(name: str, fit: str) -> str:
    """What a table calls a map's rows; known labels differ from fit to fit."""
    return f"{name}_{fit}" if name == LABELS else name


@dataclass(frozen=True, eq=False)
class UnitRows:
    """All rows of a graph at one hop, multiplied out only where they are asked for.

    H W is P^k (X' W) by the rows' lengths: the dense matrix, 500 MB for CS, never exists.
    """

    propagation: Operator
    features: Operator  # X'
    hop: int
    lengths: Tensor  # of P^k X', (nodes, 1)

    def __matmul__(self, weights: Tensor) -> Tensor:
        product = self.features @ weights
        for _ in range(self.hop):
            product = self.propagation @ product
        return product / self.lengths

    def __getitem__(self, nodes: Tensor) -> Tensor:
        """The rows of some nodes (a mask or indices), dense."""
        rows = multiplied_out(self.propagation, self.features, self.hop, nodes)
        return rows / self.lengths[nodes]


def roots_of(x: Tensor) -> Tensor:
    """X' = sgn(X) |X|^½."""
    return x.sign() * x.abs().sqrt()


@travel.kept
def unit_rows(graph: Graph, hop: int) -> UnitRows:
    """The rows of a graph at a hop, made once and kept with it."""
    if isinstance(graph, MappedGraph):
        return _stored_rows(graph, hop)  # type: ignore[return-value]  # read by nodes alone
    features = graph.derived("roots", lambda g: travel.dense_or_sparse(g, roots_of(g.x)))
    along = travel.propagation(graph)
    if isinstance(graph, travel.SymbolicGraph):
        rows = features.matrix
        for _ in range(hop):
            rows = along @ rows
        lengths = rows.norm(dim=1, keepdim=True)
    elif reached_first(along, features, hop, BLOCK, max(1.0, graph.nodes / BLOCK)):
        blocks = torch.arange(graph.nodes, device=graph.x.device).split(BLOCK)
        rows_of_blocks = (multiplied_out(along, features, hop, block) for block in blocks)
        lengths = torch.cat([rows.norm(dim=1, keepdim=True) for rows in rows_of_blocks])
    else:
        parts = [part.square().sum(1, keepdim=True) for part in by_columns(along, features, hop)]
        lengths = sum(parts[1:], start=parts[0]).sqrt()
    return UnitRows(along, features, hop, lengths.clamp_min(SHORTEST))


def by_columns(along: Operator, features: Operator, hop: int) -> Iterator[Tensor]:
    """P^k X' of all nodes, a few features at a time: edges · features for each hop."""
    for rows in dense_columns(features):
        for _ in range(hop):
            rows = along @ rows
        yield rows


def dense_columns(features: Operator) -> Iterator[Tensor]:
    """X', a few features at a time."""
    matrix: Any = csr_array(features.matrix).tocsc() if features.is_sparse else features.matrix
    for first in range(0, features.shape[1], COLUMNS):
        part = matrix[:, first : first + COLUMNS]
        if features.is_sparse:
            part = torch.from_numpy(part.toarray(order="C")).to(features.matrix.device)
        yield part


def reached_first(
    along: Operator, features: Operator, hop: int, count: int, blocks: float = 1.0
) -> bool:
    """Whether P^k X' of blocks of `count` nodes is cheaper on the rows they reach than `by_columns`.

    Cheaper is less work, and not more numbers at a time.
    """
    (nodes, columns), edges = features.shape, len(along.matrix.values())
    degree = edges / max(1, nodes)
    stored = len(features.matrix.values()) if features.is_sparse else features.matrix.numel()
    work, rows, peak = 0.0, float(count), 0.0
    for step in range(hop, 0, -1):
        entries = min(columns, stored / max(1, nodes) * degree ** (step - 1))
        work += min(nodes, rows) * degree * entries
        rows *= degree
        if step > 1:
            peak = max(peak, min(nodes, rows) * entries)
    if peak > nodes * COLUMNS:
        return False
    return blocks * work * (SPARSE_COST if features.is_sparse else 1) < hop * edges * columns


def multiplied_out(along: Operator, features: Operator, hop: int, nodes: Tensor) -> Tensor:
    """(P^k X')[nodes], dense; sparse products where both are sparse and nodes are few."""
    if hop == 0:
        return features[nodes]
    count = int(nodes.sum()) if nodes.dtype == torch.bool else len(nodes)
    if not reached_first(along, features, hop, count):
        return torch.cat([rows[nodes] for rows in by_columns(along, features, hop)], 1)
    matrix = features.matrix
    inner = csr_array(matrix) if features.is_sparse else matrix.cpu().numpy()
    product = _product(csr_array(along.matrix), inner, hop, nodes.cpu().numpy())
    dense = product.toarray() if features.is_sparse else np.ascontiguousarray(product)
    return torch.from_numpy(dense).to(matrix.device)


def _product(matrix: Any, features: Any, hop: int, nodes: Any) -> Any:
    """(P^k X')[nodes] by left (P … X') on the rows that are reached, or (left P) X' if cheaper."""
    degrees = np.diff(matrix.indptr)
    width = features.nnz / max(1, len(degrees)) if hasattr(features, "nnz") else features.shape[1]
    left = matrix[nodes]
    for remaining in range(hop - 1, 0, -1):
        reached = np.unique(left.indices)
        neighbours, rows = int(degrees[left.indices].sum()), int(degrees[reached].sum())
        wider = min(features.shape[1], width * rows / max(1, len(reached)))
        if neighbours * (1 + width) > rows * width + left.nnz * wider:
            return left[:, reached] @ _product(matrix, features, remaining, reached)
        left = left @ matrix
    return left @ features


@dataclass(frozen=True, eq=False)
class NeighbourhoodRows:
    """The neighbourhood rows of all nodes, multiplied out only where they are asked for.

    Cost: edges · features for the lengths, edges · columns for a product, memory nodes · COLUMNS.
    """

    own: UnitRows
    mean: Operator  # M
    degrees: Tensor  # (nodes, 4)
    lengths: Tensor  # (nodes, 1)

    def __matmul__(self, weights: Tensor) -> Tensor:
        features = self.own.features.shape[1]
        own, near, far, degrees = weights.split([features] * 3 + [self.degrees.shape[1]])
        along = self.mean @ (self.own @ near + self.mean @ (self.own @ far))
        product: Tensor = self.own @ own + along + self.degrees @ degrees
        return product / self.lengths

    def __getitem__(self, nodes: Tensor) -> Tensor:
        blocks = [tuple(part[nodes] for part in parts) for parts in self.blocks()]
        parts = [torch.cat(columns, 1) for columns in zip(*blocks, strict=True)]
        return torch.cat([*parts, self.degrees[nodes]], 1) / self.lengths[nodes]

    def blocks(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Own, neighbours' and their neighbours' mean of a few features at a time, for all nodes."""
        for part in dense_columns(self.own.features):
            own = part / self.own.lengths
            near = self.mean @ own
            yield own, near, self.mean @ near


@travel.kept
def neighbourhood_rows(graph: Graph) -> NeighbourhoodRows:
    """The neighbourhood rows of a graph, made once and kept with it."""
    if isinstance(graph, MappedGraph):
        return _stored_neighbourhood(graph)  # type: ignore[return-value]  # read by nodes alone
    degrees = degree_columns(graph)
    ones = torch.ones_like(degrees[:, :1])
    rows = NeighbourhoodRows(unit_rows(graph, 0), travel.neighbour_mean(graph), degrees, ones)
    squares = degrees.square().sum(1, keepdim=True)
    for block in rows.blocks():
        squares = squares + sum(part.square().sum(1, keepdim=True) for part in block)
    return replace(rows, lengths=squares.sqrt().clamp_min(SHORTEST))


def degree_columns(graph: Graph) -> Tensor:
    """What is told of the number of neighbours, (nodes, 4)."""
    count = degrees_of(graph)
    logarithm, ones = count.log1p(), torch.ones_like(count)
    parts = [logarithm, logarithm.square(), count.clamp_min(1).rsqrt(), ones]
    return torch.cat(parts, 1) / SHRINK


def degrees_of(graph: Graph) -> Tensor:
    """How many neighbours each node has, (nodes, 1)."""
    if isinstance(graph, MappedGraph):
        return graph.degrees
    return travel.neighbour_sum(graph, 0.0) @ graph.x.new_ones(graph.x.shape[0], 1)


def label_rows(graph: Graph, labelled: Tensor, classes: int) -> Any:
    """What a node's neighbours are known to be, (nodes, 2 classes + 4); `labelled` is a mask of them."""
    if isinstance(graph, travel.SymbolicGraph):  # an exported model is given no labels
        nothing = graph.x.new_zeros(graph.x.shape[0], 2 * classes + 2)
        return torch.cat([nothing, torch.full_like(nothing[:, :2], 1 / SHRINK)], 1)
    labels, every = torch.where(labelled, graph.y, -1), slice(0, classes + 1)
    along, returning = travel.neighbour_sum(graph, 0.0), _ways_back(graph)

    def one_hot(nodes: Tensor, columns: slice) -> Tensor:
        numbers = torch.arange(columns.start, columns.stop, device=labels.device)
        counted = (numbers == classes) & (labels[nodes] >= 0)[:, None]
        return ((labels[nodes][:, None] == numbers) | counted).float()

    if isinstance(graph, MappedGraph):  # what travels is stored once, the rest made when read
        name = f"labels-{digest_of(labels)}"
        near = graph.stored_product(f"{name}-near", classes + 1, one_hot, [along])
        far = graph.stored_product(f"{name}-far", classes + 1, near.part, [along])
        return Later(
            lambda nodes: label_columns(
                near[nodes], far[nodes] - returning[nodes] * one_hot(nodes, every)
            )
        )
    own = one_hot(torch.arange(graph.nodes, device=labels.device), every)
    sums = along @ own
    return label_columns(sums, along @ sums - returning * own)


def _ways_back(graph: Graph) -> Tensor:
    """How many neighbours of each node an edge leads back from, (nodes, 1)."""
    if not graph.directed:
        return degrees_of(graph)
    if isinstance(graph, MappedGraph):
        raise GraphError(
            "known labels on a mapped graph need edges both ways: import it so, or take pace-ridge"
        )
    source, target = graph.edges
    both = torch.isin(source * graph.nodes + target, target * graph.nodes + source)
    return torch.bincount(target[both], minlength=graph.nodes).to(graph.x.dtype)[:, None]


def label_columns(near: Tensor, far: Tensor) -> Tensor:
    """Shares of classes and numbers of neighbours, from sums over them and over theirs."""
    columns = []
    for sums in (near, far):
        count = sums[:, -1:]
        columns += [sums[:, :-1] / count.clamp_min(1), count.log1p() / SHRINK]
    return torch.cat([*columns, near.new_full((len(near), 2), 1 / SHRINK)], 1)


# Of a mapped graph: what travels is stored once, everything else is made where it is read.


def _stored_rows(graph: MappedGraph, hop: int) -> Later:
    x = graph.stored
    if hop == 0:
        return Later(lambda nodes: normalize(roots_of(x[nodes]), eps=SHORTEST))

    def roots(nodes: Tensor, columns: slice) -> Tensor:
        return roots_of(x.part(nodes, columns))

    along = [travel.propagation(graph)] * hop
    stored = graph.stored_product(f"hop{hop}", x.shape[1], roots, along)
    return Later(lambda nodes: normalize(stored[nodes], eps=SHORTEST))


def _stored_neighbourhood(graph: MappedGraph) -> Later:
    x, own, mean = graph.stored, _stored_rows(graph, 0), [travel.neighbour_mean(graph)]
    degrees = degree_columns(graph)
    blocks = torch.arange(graph.nodes).split(READ)
    lengths = torch.cat([x[nodes].abs().sum(1, keepdim=True) for nodes in blocks]).sqrt()
    lengths = lengths.clamp_min(SHORTEST)

    def scaled(nodes: Tensor, columns: slice) -> Tensor:
        return roots_of(x.part(nodes, columns)) / lengths[nodes]

    near = graph.stored_product("near", x.shape[1], scaled, mean)
    far = graph.stored_product("far", x.shape[1], near.part, mean)
    parts = (own, near, far, degrees)
    return Later(lambda some: normalize(torch.cat([part[some] for part in parts], 1), eps=SHORTEST))
