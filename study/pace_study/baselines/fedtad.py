"""FedTAD, one round: the average, distilled without data from what clients know (Zhu et al., 2024)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from pace.errors import SettingError
from pace.graph import Graph
from pace.methods import FedAvg
from pace.models import GCN, Field, Operator
from pace.params import Params
from pace.protocol import Federation, Message, Uploads
from pace.task import losses
from pace.training import Optimiser, Recipe
from pace_study.baselines import OnGCN, only_gcn
from pace_study.baselines.mixing import gathered

CLASSES = 4096  # at most
BLOCK = 2048  # edges at a time
NODES, NOISE, NEAREST = 100, 32, 5  # of the pseudo-graph: nodes, noise a node, neighbours
HIDDEN = (64, 128, 256)  # of the generator
ADAM = Recipe(rate=1e-3)  # of both the generator and the average


@dataclass(frozen=True)
class FedTAD(OnGCN, FedAvg):
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

    def share(self, local: Params, graph: Graph, federation: Federation) -> dict[str, Tensor]:
        if federation.model.classes > CLASSES:
            raise SettingError(
                f"FedTAD's generator holds classes², and there are {federation.model.classes:,} "
                f"classes, expected at most {CLASSES:,}: choose another method"
            )
        walk = walked_ids(graph, federation.random("fedtad walk"))
        raw = reliability(graph, federation.model.classes, walk)
        return {**super().share(local, graph, federation), "reliability": raw}

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        average = self.answer(self.total(uploads, federation), federation)
        if not self.rounds or len(uploads) == 1:  # one client's average is its own model
            return repeat(average, len(uploads))
        weights = within_clients(gathered(uploads, "reliability")).float()
        distilled = distil(average, uploads, weights, rounds=self.rounds, federation=federation)
        # Huge admitted numbers overflow the generator's gradient.
        finite = all(value.isfinite().all() for value in distilled.values())
        return repeat(distilled if finite else average, len(uploads))


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
    for steps in range(1, 6):
        places = torch.arange(nodes)
        for _ in range(steps):
            leave = torch.rand(nodes, generator=random) >= stay[places]
            jump = torch.randint(1, max(2, nodes), (nodes,), generator=random)
            places = torch.where(leave, (places + jump) % nodes, places)
            visited.append(places)
    return torch.stack(visited, dim=1).float()


# --- distillation without data: the generator, its pseudo-graph, the steps of the average ---------


def distil(
    average: Params, uploads: Uploads, weights: Tensor, *, rounds: int, federation: Federation
) -> dict[str, Tensor]:
    """The average after `rounds` × 5 steps towards the clients on generated graphs.

        Σ_i Σ_c r_ic mean|z - z_i|, over the pseudo-nodes of class c

    r are the clients' `weights` (K, C), z the logits of the average, with dropout, and z_i a
    client's. One client's model at a time is in memory.
    """
    gcn = only_gcn(federation.model, "FedTAD")
    random = federation.random("fedtad distillation")
    labels = balanced(gcn.classes)
    shares = weights[:, labels] / labels.bincount()[labels]  # (K, nodes): r_ic / size of class c
    search, optimiser = Optimiser(untrained(gcn, random), ADAM), Optimiser(average, ADAM)
    generator, student = search.leaves(), optimiser.leaves()
    for _ in range(rounds):
        noise = torch.randn(NODES, NOISE, generator=random)
        search.slope.zero_()
        seek(generator, noise, labels, shares=shares, student=student, uploads=uploads, gcn=gcn)
        search.step()
        with torch.no_grad():
            features = generate(generator, noise, labels)
            around = nearest(features)
            field = pseudo_field(around @ features, around, gcn)
            taught = torch.stack([gcn.forward(upload, field).logits for upload in uploads])
        for _ in range(5):
            seen = gcn.forward(student, field, dropout(gcn.dropout, random))
            optimiser.slope.zero_()
            gap(seen.logits, taught, shares).backward()
            optimiser.step()
    return optimiser.result()


def seek(
    generator: Params,
    noise: Tensor,
    labels: Tensor,
    *,
    shares: Tensor,
    student: Params,
    uploads: Uploads,
    gcn: GCN,
) -> None:
    """Leave in the generator the gradient of its loss: nodes that clients know and the average does not.

        Σ_i Σ_c r_ic (CE(z_i) - mean|z - z_i|) + K · diversity,   z_i constant in the second term

    Clients enter by their gradient in P X, summed one after the other.
    """
    features = generate(generator, noise, labels)
    around = nearest(features.detach())
    messages = around @ features
    leaf = messages.detach().requires_grad_()
    field = pseudo_field(leaf, around, gcn)
    taught = []
    for upload, share in zip(uploads, shares, strict=True):
        logits = gcn.forward(upload, field).logits
        (share @ losses(logits, labels)).backward()
        taught.append(logits.detach())
    seen = gcn.forward({name: value.detach() for name, value in student.items()}, field)
    (-gap(seen.logits, torch.stack(taught), shares)).backward()
    spread = len(shares) * diversity(noise, features)
    torch.autograd.backward([messages, spread], [leaf.grad, None])


def gap(logits: Tensor, taught: Tensor, shares: Tensor) -> Tensor:
    """Σ_i Σ_v share_iv mean_c |z_vc - z_ivc|."""
    return (shares * (logits - taught).abs().mean(2)).sum()


def diversity(noise: Tensor, features: Tensor) -> Tensor:
    """exp(-mean over pairs of (mean squared noise difference) · (mean absolute feature difference))."""
    apart = torch.cdist(noise, noise).square() / noise.shape[1]
    return (-(apart * torch.cdist(features, features, p=1) / features.shape[1]).mean()).exp()


def balanced(classes: int) -> Tensor:
    """The pseudo-nodes' labels: equally many a class in class order, the remainder to the last."""
    return (torch.arange(NODES) // max(1, NODES // classes)).clamp(max=classes - 1)


def untrained(gcn: GCN, random: torch.Generator) -> dict[str, Tensor]:
    """The generator's start: a normal label embedding, linear layers uniform on ± 1/sqrt(in)."""
    widths = (gcn.classes + NOISE, *HIDDEN, gcn.features)
    params = {"labels": torch.randn(gcn.classes, gcn.classes, generator=random)}
    for layer, (fan_in, fan_out) in enumerate(pairwise(widths)):
        drawn = torch.rand(fan_out, fan_in + 1, generator=random) * 2 - 1
        params[f"{layer}.weight"] = drawn[:, 1:] / fan_in**0.5
        params[f"{layer}.bias"] = drawn[:, 0] / fan_in**0.5
    return params


def generate(params: Params, noise: Tensor, labels: Tensor) -> Tensor:
    """Features for each noise and label: linear layers with tanh between."""
    hidden = torch.cat([params["labels"][labels], noise], dim=1)
    for layer in range(len(HIDDEN) + 1):
        hidden = hidden.tanh() if layer else hidden
        hidden = hidden @ params[f"{layer}.weight"].t() + params[f"{layer}.bias"]
    return hidden


def nearest(features: Tensor) -> Tensor:
    """P of the graph that joins each node to its five most similar, itself among them."""
    unit = normalize(features)
    chosen = (unit @ unit.t()).topk(NEAREST, dim=1).indices
    joined = torch.zeros(len(unit), len(unit)).scatter_(1, chosen, 1.0)
    joined = torch.maximum(joined, joined.t()).fill_diagonal_(1.0)
    scale = joined.sum(1).rsqrt()
    return scale[:, None] * joined * scale


def pseudo_field(messages: Tensor, around: Tensor, gcn: GCN) -> Field:
    everyone, above = torch.arange(len(around)), [Operator(around)] * (gcn.layers - 1)
    return Field((everyone,) * gcn.layers, (messages, *above))


def dropout(probability: float, random: torch.Generator) -> Callable[[Tensor], Tensor]:
    """Zero with that probability, scaled so that the mean stays."""

    def drop(hidden: Tensor) -> Tensor:
        keep = torch.rand(hidden.shape, generator=random) >= probability
        return hidden * keep / (1 - probability)

    return drop
