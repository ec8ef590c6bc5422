"""How features travel along edges: the constants of a graph that a network multiplies by."""

import numpy as np
from scipy import sparse

from pace.graph import Graph
from pace.models.operator import Operator, Product, csr_array, csr_tensor, multiplied


def propagation(graph: Graph) -> Operator:
    """P = D^-1/2 (A + I) D^-1/2, with D the degrees counting the self-loop."""
    return graph.derived("propagation", _propagation)


def propagated_features(graph: Graph) -> Operator | Product:
    """P X, what the first layer of a GCN multiplies."""
    return graph.derived("propagated features", _propagated_features)


def _propagation(graph: Graph) -> Operator:
    loops = np.arange(graph.nodes)
    source, target = (np.concatenate([ends.cpu().numpy(), loops]) for ends in graph.edges)
    scale = 1 / np.sqrt(np.bincount(source, minlength=graph.nodes).astype(np.float32))
    values = scale[source] * scale[target]
    shape = (graph.nodes, graph.nodes)
    matrix = sparse.csr_array((values, (target, source)), shape=shape)
    return Operator(csr_tensor(matrix)).to(graph.x.device)


def _propagated_features(graph: Graph) -> Operator | Product:
    product = multiplied(csr_array(propagation(graph).matrix), graph.x.cpu())
    return product.to(graph.x.device)
