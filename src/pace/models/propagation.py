"""How features travel along edges: the constants of a graph that a network multiplies by.

`torch.export` traces a model on a graph without numbers, a `SymbolicGraph`: with plain torch alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from pace.graph import MASKS, UNKNOWN, Graph
from pace.models.mapped import MappedGraph, MappedOperator
from pace.models.operator import Operator, Product, csr_tensor, multiplied

Made = TypeVar("Made", bound=Callable[..., Any])
Places = Tensor | slice  # slice(None) where nothing is left out


class SymbolicGraph(Graph):
    """Features, edges and edge weights that a traced program will be given; nothing to check yet."""

    def __post_init__(self) -> None:
        pass

    @classmethod
    def of(cls, x: Tensor, edges: Tensor, weights: Tensor) -> "SymbolicGraph":
        none = torch.zeros(x.shape[0], dtype=torch.bool, device=x.device)
        labels = torch.full((x.shape[0],), UNKNOWN, device=x.device)
        masks = dict.fromkeys(MASKS, none)
        return cls(x, edges, labels, **masks, weights=weights, directed=True)


@dataclass(frozen=True, eq=False)
class Entries(Operator):
    """A square sparse matrix by its entries; `matrix` are their values."""

    rows_of: Tensor
    columns_of: Tensor
    nodes: int

    @property
    def shape(self) -> torch.Size:
        return torch.Size((self.nodes, self.nodes))

    def times(self, factor: float) -> "Entries":
        return Entries(self.matrix * factor, self.rows_of, self.columns_of, self.nodes)

    def __matmul__(self, dense: Tensor) -> Tensor:
        messages = self.matrix[:, None] * dense.index_select(0, self.columns_of)
        return added_up(messages, self.rows_of, self.nodes)


def added_up(messages: Tensor, targets: Tensor, nodes: int) -> Tensor:
    """At every node the sum of the messages that arrive, (nodes, width)."""
    return messages.new_zeros((nodes, messages.shape[1])).index_add(0, targets, messages)


def kept(make: Made) -> Made:
    """The function, whose constants are made once for every setting and kept with their graph."""

    @wraps(make)
    def once(graph: Graph, *settings: Any) -> Any:
        return graph.derived(f"{make.__name__} {settings}", lambda graph: make(graph, *settings))

    return once  # type: ignore[return-value]


@kept
def propagation(graph: Graph) -> Operator:
    """P = D^-1/2 (A + I) D^-1/2, with D the degrees counting the self-loop, as PyG's `gcn_norm`.

    With edge weights, A holds them and D sums them; the self-loop weighs 1. With directions, D sums
    over the edges that arrive.
    """
    if isinstance(graph, MappedGraph):
        ones = torch.ones(graph.nodes)
        sums = MappedOperator(ones, graph, "A", ones, 1.0, weighted=True).spread(ones[:, None])
        degree = torch.cat([rows for _, _, rows in sums])[:, 0]
        scale = 1 / degree.double().sqrt().float()
        return MappedOperator(scale, graph, "P", scale, 1.0, weighted=True)
    source, target, weights = _with_loops(graph, 1.0, graph.weights)
    degree = _sums(weights, target, graph.nodes)
    # torch's root of a float32 is not always the nearest
    scale = 1 / degree.double().sqrt().float()
    return _operator(graph, target, source, scale[source] * scale[target] * weights)


@kept
def neighbour_mean(graph: Graph) -> Operator:
    """D^-1 A: the mean over neighbours, without the node itself; zero where there are none."""
    if isinstance(graph, MappedGraph):
        scale = 1 / graph.degrees[:, 0].clamp_min(1)
        return MappedOperator(scale, graph, "M", torch.ones_like(scale))
    source, target = graph.edges
    degree = _sums(graph.x.new_ones(target.shape[0]), target, graph.nodes)
    return _operator(graph, target, source, 1 / degree[target])


@kept
def neighbour_sum(graph: Graph, own: float) -> Operator:
    """A + own · I: the sum over neighbours, and the node itself."""
    if isinstance(graph, MappedGraph):
        ones = torch.ones(graph.nodes)
        return MappedOperator(ones, graph, f"A{own:g}", ones, own)
    source, target, weights = _with_loops(graph, own, None)
    return _operator(graph, target, source, weights)


@kept
def features(graph: Graph) -> Operator:
    """X, sparse where it has many zeros."""
    if isinstance(graph, MappedGraph):
        return graph.stored
    return dense_or_sparse(graph, graph.x)


def times_features(operator: Operator, graph: Graph) -> Operator | Product:
    """A X, in factors where that is cheaper."""
    if isinstance(operator, MappedOperator):
        x = operator.graph.stored
        return operator.graph.stored_product(f"{operator.name}-x", x.shape[1], x.part, [operator])
    if isinstance(operator, Entries):
        return Product(operator, Operator(graph.x))
    return multiplied(operator, features(graph))


def dense_or_sparse(graph: Graph, rows: Tensor) -> Operator:
    """Rows of a graph's nodes as a constant, by their density."""
    if isinstance(graph, SymbolicGraph):
        return Operator(rows)
    return Operator.of(rows.cpu()).to(graph.x.device)


def _with_loops(graph: Graph, own: float, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Sources, targets and weights of the edges, and of a self-loop at every node."""
    loops = torch.arange(graph.nodes, device=graph.x.device)
    source, target = torch.cat([graph.edges, loops.expand(2, -1)], 1)
    if weights is None:
        weights = graph.x.new_ones(graph.edges.shape[1])
    return source, target, torch.cat([weights, graph.x.new_full((graph.nodes,), own)])


def _sums(values: Tensor, target: Tensor, nodes: int) -> Tensor:
    """At every node the sum of what arrives, added up in float64."""
    zeros = values.new_zeros(nodes, dtype=torch.float64)
    return zeros.index_add(0, target, values.double()).float()


def _operator(graph: Graph, rows: Tensor, columns: Tensor, values: Tensor) -> Operator:
    if isinstance(graph, SymbolicGraph):
        return Entries(values, rows, columns, graph.nodes)
    ends = (rows.cpu().numpy(), columns.cpu().numpy())
    matrix = sparse.csr_array((values.cpu().numpy(), ends), shape=(graph.nodes, graph.nodes))
    return Operator(csr_tensor(matrix)).to(graph.x.device)


@dataclass(frozen=True, eq=False)
class Reach:
    """Row sets R_0, …, R_n, from the widest to the centres; R_l+1 is part of R_l."""

    rows: tuple[Places, ...]  # nodes of each row set
    blocks: tuple[Operator, ...]  # A from R_l to R_l+1: (rows of R_l+1, rows of R_l)
    own: tuple[Places, ...]  # where the rows of R_l+1 are among those of R_l
    centers: tuple[Tensor, ...]  # where the centres are among the rows of each R_l


def reach(matrix: Operator | None, graph: Graph, steps: int, centers: Tensor | None) -> Reach:
    """Row sets that grow from the centres R_n (a mask): R_l is R_l+1 and all columns that its rows read.

    Without `centers`, every row set is the whole graph. Without steps there need be no A.
    """
    device = graph.x.device
    if centers is None:
        all_nodes, everyone = torch.arange(graph.nodes, device=device), (slice(None),) * steps
        blocks = () if matrix is None else (matrix,) * steps
        return Reach((*everyone, slice(None)), blocks, everyone, (all_nodes,) * (steps + 1))
    goal = centers.cpu().nonzero().flatten()
    rows, between = [goal], list[Operator]()
    for _ in range(steps):
        assert matrix is not None
        block: Any = matrix.block(rows[0].numpy())
        reached = torch.from_numpy(np.union1d(block.indices, rows[0].numpy())).long()
        between.insert(0, Operator(csr_tensor(block[:, reached.numpy()].tocsr())).to(device))
        rows.insert(0, reached)
    own = [torch.searchsorted(below, above).to(device) for below, above in pairwise(rows)]
    ends = [torch.searchsorted(row, goal).to(device) for row in rows]
    nodes = [row.to(device) for row in rows]
    return Reach(tuple(nodes), tuple(between), tuple(own), tuple(ends))


def chosen(hidden: Tensor, places: Places) -> Tensor:
    """The rows at `places`; `index_select`, whose gradient is the fast one."""
    return hidden if isinstance(places, slice) else hidden.index_select(0, places)


def at(rows: Operator | Product, places: Places) -> Operator | Product:
    """The rows of a constant at some places."""
    return rows if isinstance(places, slice) else rows.rows(places)
