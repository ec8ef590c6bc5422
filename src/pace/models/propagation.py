"""How features travel along edges: the constants of a graph that a network multiplies by.

Each is made when first asked for and kept with the graph.
"""

from typing import Any

import numpy as np
from scipy import sparse

from pace.graph import Graph
from pace.models.operator import Operator, Product, csr_array, csr_tensor, multiplied


def propagation(graph: Graph) -> Operator:
    """P = D^-1/2 (A + I) D^-1/2, with D the degrees counting the self-loop, as PyG's `gcn_norm`.

    With edge weights, A holds them and D sums them; the self-loop weighs 1. With directions, D sums
    over the edges that arrive.
    """
    return graph.derived("propagation", _propagation)


def propagated_features(graph: Graph) -> Operator | Product:
    """P X, what the first layer of a GCN multiplies."""
    return graph.derived(
        "propagated features", lambda graph: times_features(propagation(graph), graph)
    )


def features(graph: Graph) -> Operator:
    """X, sparse where it has many zeros."""
    return graph.derived("features", lambda graph: Operator.of(graph.x.cpu()).to(graph.x.device))


def neighbour_mean(graph: Graph) -> Operator:
    """D^-1 A: the mean over neighbours, without the node itself; zero where there are none."""
    return graph.derived("neighbour mean", _neighbour_mean)


def neighbour_sum(graph: Graph, own: float) -> Operator:
    """A + own · I: the sum over neighbours, and the node itself."""
    return graph.derived(f"neighbour sum {own}", lambda graph: _neighbour_sum(graph, own))


def times_features(operator: Operator, graph: Graph) -> Operator | Product:
    """A X, in factors where that is cheaper."""
    return multiplied(csr_array(operator.matrix), graph.x.cpu()).to(graph.x.device)


def _propagation(graph: Graph) -> Operator:
    loops = np.arange(graph.nodes)
    source, target = (np.concatenate([ends.cpu().numpy(), loops]) for ends in graph.edges)
    weights = None
    if graph.weights is not None:
        weights = np.concatenate([graph.weights.cpu().numpy(), np.ones(len(loops), np.float32)])
    degree = np.bincount(target, weights, minlength=graph.nodes).astype(np.float32)
    scale = 1 / np.sqrt(degree)
    values = scale[source] * scale[target]
    return _operator(graph, target, source, values if weights is None else values * weights)


def _neighbour_mean(graph: Graph) -> Operator:
    source, target = (ends.cpu().numpy() for ends in graph.edges)
    degree = np.bincount(target, minlength=graph.nodes).astype(np.float32)
    return _operator(graph, target, source, 1 / degree[target])


def _neighbour_sum(graph: Graph, own: float) -> Operator:
    loops = np.arange(graph.nodes)
    source, target = (np.concatenate([ends.cpu().numpy(), loops]) for ends in graph.edges)
    values = np.ones(len(source), dtype=np.float32)
    values[len(source) - graph.nodes :] = own
    return _operator(graph, target, source, values)


def _operator(graph: Graph, rows: Any, columns: Any, values: Any) -> Operator:
    matrix = sparse.csr_array((values, (rows, columns)), shape=(graph.nodes, graph.nodes))
    return Operator(csr_tensor(matrix)).to(graph.x.device)
