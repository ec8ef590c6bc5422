"""How well a client knows each class: FedTAD's class-wise knowledge reliability."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn.functional import cosine_similarity

from pace.graph import Graph
from pace.models.operator import csr_array
from pace.models.propagation import propagation

LENGTH = 5  # the longest walk
BLOCK = 2048  # edges, or rows of a power of P, that exist at a time

Topology = Callable[[Graph, torch.Generator], Tensor]  # -> (n, some columns)


def reliability(graph: Graph, classes: int, topology: Topology, random: torch.Generator) -> Tensor:
    """r_c = Σ over training nodes v of class c of (1 + Σ_{u in N(v)} cos(φ_v, φ_u)) / (deg_v + 1)

    φ_v joins the node's features and its topology columns.
    """
    described = torch.cat([graph.x, topology(graph, random)], dim=1)
    edges = graph.edges[:, graph.train[graph.edges[0]]]
    alike = torch.ones(graph.nodes)
    for source, target in zip(*(end.split(BLOCK) for end in edges), strict=True):
        alike.index_add_(0, source, cosine_similarity(described[source], described[target]))
    degree = torch.bincount(graph.edges[0], minlength=graph.nodes)
    quality = (alike / (degree + 1))[graph.train]
    return torch.zeros(classes).index_add_(0, graph.training_labels, quality)


def walked_ids(graph: Graph, random: torch.Generator) -> Tensor:
    """The released walk: the ids of the nodes visited by walks of 1, 2, ..., 5 steps.

    Its transition matrix is by accident the diagonal 1/deg, with the softmax taken of each row: a
    walker stays with probability e^{1/deg} / (e^{1/deg} + n - 1) and otherwise goes to any other
    node. Drawn in that form it needs no n × n matrix. Ids swamp features in a cosine, so every node
    looks alike and r is nearly the number of training nodes a class.
    """
    nodes = graph.nodes
    loops = torch.bincount(graph.edges[0], minlength=nodes) + 1  # the degree counts the self-loop
    stay = (1 / loops).exp()
    stay = stay / (stay + nodes - 1)
    visited = []
    for steps in range(1, LENGTH + 1):
        here = torch.arange(nodes)
        for _ in range(steps):
            leave = torch.rand(nodes, generator=random) >= stay[here]
            jump = torch.randint(1, max(2, nodes), (nodes,), generator=random)
            here = torch.where(leave, (here + jump) % nodes, here)
            visited.append(here)
    return torch.stack(visited, dim=1).float()


def return_probabilities(graph: Graph, random: torch.Generator) -> Tensor:
    """What the walk seems meant for: (T^k)_vv for k = 1..5, the chance to be back after k steps.

    T = D^-1 (A + I) is similar to P, so (T^k)_vv = (P^k)_vv, and P is symmetric, so that is the
    product of row v of P^a with row v of P^b, a + b = k: rows of three powers give all five, block by
    block, exactly.
    """
    whole = csr_array(propagation(graph).matrix).astype(np.float64)
    columns = []
    for rows in np.array_split(np.arange(graph.nodes), -(-graph.nodes // BLOCK)):
        powers = [sparse.eye_array(graph.nodes, format="csr")[rows]]
        for _ in range((LENGTH + 1) // 2):
            powers.append((powers[-1] @ whole).tocsr())
        back: list[np.ndarray[Any, Any]] = [
            powers[k // 2].multiply(powers[k - k // 2]).sum(axis=1) for k in range(1, LENGTH + 1)
        ]
        columns.append(np.stack(back, axis=1))
    return torch.from_numpy(np.concatenate(columns)).float()
