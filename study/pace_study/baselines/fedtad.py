"""FedTAD, one round: the average, distilled without data from what clients know (Zhu et al., 2024)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from pace.errors import SettingError
from pace.graph import Graph
from pace.methods import FedAvg
from pace.models import GCN, Model
from pace.params import Params
from pace.protocol import Federation, Message, Uploads
from pace_study.baselines.distillation import distil
from pace_study.baselines.masked import only_gcn
from pace_study.baselines.mixing import gathered

CLASSES = 4096  # at most
LENGTH = 5  # the longest walk
BLOCK = 2048  # edges at a time


@dataclass(frozen=True)
class FedTAD(FedAvg):
    """FedAvg, then distilled at the server from the clients that know a class (Zhu et al., 2024).

    FedAvg, then 5 × (1 generator step, 5 steps of the average towards the clients' logits).

    Clients send with their model how reliable it is for each class; the generator looks for nodes
    that reliable clients classify and the average treats differently. 25 steps at a rate of 1e-3
    move little: FedTAD stays near FedAvg. It follows OpenFGL where that differs from the official
    repository, which normalises a class's weights over clients.
    """

    needs: ClassVar[str] = "its server distils from every client's model"

    tensors: ClassVar[Mapping[str, str]] = {
        **FedAvg.tensors,
        "reliability": "how reliable each class is (from training labels)",
    }

    rounds: int = 5

    def network(self, model: Model) -> GCN:
        return only_gcn(model, "FedTAD")

    def share(self, local: Params, graph: Graph, federation: Federation) -> dict[str, Tensor]:
        if federation.model.classes > CLASSES:
            raise SettingError(
                f"FedTAD's generator holds classes², and there are {federation.model.classes:,} "
                f"classes, expected at most {CLASSES:,}: choose another method"
            )
        walk = walked_ids(graph, federation.random("fedtad walk"))
        known = reliability(graph, federation.model.classes, walk)
        return {**super().share(local, graph, federation), "reliability": known}

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        average = self.answer(self.total(uploads, federation), federation)
        if not self.rounds or len(uploads) == 1:  # one client's average is its own model
            return (average for _ in range(len(uploads)))
        weights = within_clients(gathered(uploads, "reliability")).float()
        distilled = distil(average, uploads, weights, rounds=self.rounds, federation=federation)
        if not all(value.isfinite().all() for value in distilled.values()):
            distilled = average  # huge admitted numbers overflow the generator's gradient
        return (distilled for _ in range(len(uploads)))


def within_clients(raw: Tensor) -> Tensor:
    """A client's weights, which sum to one over classes, as OpenFGL has it."""
    return raw / raw.sum(1, keepdim=True).clamp_min(1e-12)


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
