"""How features travel along edges: the constants of a graph that a network multiplies by.

Each is made when first asked for and kept with the graph.
"""

import torch
from scipy import sparse
from torch import Tensor

from pace.graph import Graph
from pace.models.operator import Operator, Product, csr_array, csr_tensor, multiplied
from pace.models.symbolic import Entries, SymbolicGraph


def propagation(graph: Graph) -> Operator:
    """P = D^-1/2 (A + I) D^-1/2, with D the degrees counting the self-loop, as PyG's `gcn_norm`.

    With edge weights, A holds them and D sums them; the self-loop weighs 1. With directions, D sums
    over the edges that arrive.
    """
    return graph.derived("propagation", _propagation)


def features(graph: Graph) -> Operator:
    """X, sparse where it has many zeros."""
    return graph.derived("features", lambda graph: dense_or_sparse(graph, graph.x))


def neighbour_mean(graph: Graph) -> Operator:
    """D^-1 A: the mean over neighbours, without the node itself; zero where there are none."""
    return graph.derived("neighbour mean", _neighbour_mean)


def neighbour_sum(graph: Graph, own: float) -> Operator:
    """A + own · I: the sum over neighbours, and the node itself."""
    return graph.derived(f"neighbour sum {own}", lambda graph: _neighbour_sum(graph, own))


def times_features(operator: Operator, graph: Graph) -> Operator | Product:
    """A X, in factors where that is cheaper."""
    if isinstance(operator, Entries):
        return Product(operator, Operator(graph.x))
    return multiplied(csr_array(operator.matrix), graph.x.cpu()).to(graph.x.device)


def dense_or_sparse(graph: Graph, rows: Tensor) -> Operator:
    """Rows of a graph's nodes as a constant, by their density."""
    if isinstance(graph, SymbolicGraph):
        return Operator(rows)
    return Operator.of(rows.cpu()).to(graph.x.device)


def _propagation(graph: Graph) -> Operator:
    source, target, weights = _with_loops(graph, 1.0, weighted=True)
    degree = _sums(weights, target, graph.nodes)
    scale = (
        1 / degree.double().sqrt().float()
    )  # torch's root of a float32 is not always the nearest
    return _operator(graph, target, source, scale[source] * scale[target] * weights)


def _neighbour_mean(graph: Graph) -> Operator:
    source, target = graph.edges
    degree = _sums(graph.x.new_ones(target.shape[0]), target, graph.nodes)
    return _operator(graph, target, source, 1 / degree[target])


def _neighbour_sum(graph: Graph, own: float) -> Operator:
    source, target, weights = _with_loops(graph, own, weighted=False)
    return _operator(graph, target, source, weights)


def _with_loops(graph: Graph, own: float, *, weighted: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Sources, targets and weights of the edges, and of a self-loop at every node."""
    loops = torch.arange(graph.nodes, device=graph.x.device)
    source, target = torch.cat([graph.edges, loops.expand(2, -1)], 1)
    weights = graph.weights if weighted else None
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
