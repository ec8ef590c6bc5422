"""How well a client knows each class: FedTAD's class-wise knowledge reliability."""

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from pace.graph import Graph

LENGTH = 5  # the longest walk
BLOCK = 2048  # edges at a time


def reliability(graph: Graph, classes: int, columns: Tensor) -> Tensor:
    """r_c = Σ over training nodes v of class c of (1 + Σ_{u in N(v)} cos(φ_v, φ_u)) / (deg_v + 1)

    φ_v joins the node's features and its `columns`, which describe where it is in the graph.
    """
    described = torch.cat([graph.x, columns], dim=1)
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
