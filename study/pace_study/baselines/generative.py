"""One-shot rivals whose server trains on what it generates: SPIRE, GHOST and DENSE.

Each from its paper and, where there is some, its authors' code; what differs is listed in its docstring.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from pace import task
from pace.graph import Graph
from pace.methods import FedAvg
from pace.models.unit_rows import degrees_of
from pace.params import Params
from pace.protocol import Federation, Message, Uploads
from pace.training import Optimiser, Recipe
from pace_study.baselines import OnGCN, fedtad
from pace_study.baselines.fedtad import NODES, NOISE
from pace_study.baselines.rivals import Rival, trained_on
from pace_study.rounds import disjoint_union


def descend(optimiser: Optimiser, loss: Callable[[], Tensor], steps: int) -> None:
    """Some steps down a loss that may draw at random."""
    for _ in range(steps):
        optimiser.slope.zero_()
        loss().backward()
        optimiser.step()


def minimised(
    start: Params, loss: Callable[[Params], Tensor], steps: int, recipe: Recipe
) -> dict[str, Tensor]:
    """Parameters after some steps down a loss of them."""
    optimiser = Optimiser(start, recipe)
    descend(optimiser, partial(loss, optimiser.leaves()), steps)
    return optimiser.result()


# --- SPIRE --------------------------------------------------------------------------------------

WIDTH, DENOISING, NEIGHBOURS, JITTER = 256, 8, 6, 0.03  # SPIRE's; jitter is a standard deviation


@dataclass(frozen=True)
class Spire(Rival):
    """SPIRE: prototypes weighted by degree entropy, a generator at the server (arXiv 2609.06499).

        S = -Σ p_v log p_v / log n, p_v = degree_v / Σ degrees;   α = softmax(-S);   B = Σ_k α_k P_k

    P are a client's class means, of length one. The server trains a generator conditioned on B until
    the class means of what it makes are B, joins each client's pseudo-nodes to their six nearest, labels
    them by the nearest row of B and trains the model on the union.

    Differs from the authors' code: the generator first, then one union and this study's training of
    the model, where they alternate for 300 epochs; one residual block in eight steps where they have
    three; B is not moved on by optimal transport, which may exchange classes; the entropy term of the
    generator's loss, saturated at a weight of 1e-5, is left out. Global.
    """

    needs: ClassVar[str] = "its server trains"
    tensors: ClassVar[Mapping[str, str]] = {
        "prototypes": "mean feature of your training nodes by class, of length one",
        "entropy": "how evenly links are spread over your nodes",
    }

    steps: int = 200
    epochs: int = 100

    def share(self, local: Params, graph: Graph, federation: Federation) -> Message:
        labels = task.targets(graph.training_labels, federation.model.classes)
        means = functional.normalize(labels.T @ graph.x[graph.train])
        return {"prototypes": means, "entropy": degree_entropy(graph)}

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        every = list(uploads)
        shares = structural_weights(torch.stack([upload["entropy"] for upload in every]))
        centre = torch.stack([upload["prototypes"] for upload in every])
        centre = torch.einsum("k,kcd->cd", shares, centre)
        random = federation.random("spire generator")
        generator = self.fitted(centre, random)
        graphs = []
        for share in (shares / shares.max()).tolist():
            count = round(3 + 2 * share)  # pseudo-nodes a class that a client is granted
            labels = torch.arange(len(centre)).repeat_interleave(count)
            noise = torch.randn(len(labels), NOISE, generator=random)
            rows = denoised(generator, noise, centre[labels])
            rows = rows + JITTER * torch.randn(rows.shape, generator=random)
            called = (functional.normalize(rows) @ functional.normalize(centre).T).argmax(1)
            graphs.append(joined_to_nearest(rows, called, NEIGHBOURS))
        return repeat(trained_on(disjoint_union(graphs), self.epochs, federation), len(every))

    def fitted(self, centre: Tensor, random: torch.Generator) -> dict[str, Tensor]:
        """A generator whose class means are the rows of `centre`."""
        classes, features = centre.shape
        shapes = {"in": (WIDTH, NOISE), "step": (WIDTH, WIDTH), "condition": (WIDTH, features)}
        start = {"out": torch.zeros(features, WIDTH)}
        for name, shape in (shapes | {"time": (DENOISING, WIDTH)}).items():
            start[name] = torch.randn(shape, generator=random) / shape[-1] ** 0.5
        labels = fedtad.balanced(classes)
        mean = task.targets(labels, classes).T / labels.bincount(minlength=classes)[:, None]

        def loss(params: Params) -> Tensor:
            noise = torch.randn(len(labels), NOISE, generator=random)
            return functional.mse_loss(mean @ denoised(params, noise, centre[labels]), centre)

        return minimised(start, loss, self.steps, Recipe(rate=1e-3, decay=0.0))


def degree_entropy(graph: Graph) -> Tensor:
    """S, from 0 (one node has every link) to 1 (all have as many); 0 where there is no link."""
    share = degrees_of(graph).flatten()
    share = share[share > 0] / share.sum().clamp_min(1)
    return -(share * share.log()).sum() / torch.tensor(float(max(graph.nodes, 2))).log()


def structural_weights(entropies: Tensor) -> Tensor:
    """α: the lower a client's entropy, the more its prototypes count."""
    return (-entropies).softmax(0)


def denoised(params: Params, noise: Tensor, condition: Tensor) -> Tensor:
    """Features from noise in some residual steps, each told the class's prototype and its number."""
    hidden, told = noise @ params["in"].T, condition @ params["condition"].T
    for time in params["time"]:
        seen = functional.layer_norm(hidden, (WIDTH,)) + told + time
        hidden = hidden + functional.gelu(seen) @ params["step"].T
    return (functional.layer_norm(hidden, (WIDTH,)) @ params["out"].T).tanh()


def joined_to_nearest(rows: Tensor, labels: Tensor, neighbours: int) -> Graph:
    """A graph for training: each node is joined to the nodes nearest to it."""
    apart = torch.cdist(rows, rows).fill_diagonal_(float("inf"))
    near = apart.topk(min(neighbours, len(rows) - 1), largest=False).indices
    edges = torch.stack([torch.arange(len(rows)).repeat_interleave(near.shape[1]), near.flatten()])
    return Graph.build(rows, edges, labels, train=torch.ones(len(rows), dtype=torch.bool))


# --- GHOST --------------------------------------------------------------------------------------

SHORTEST = 1e-8  # a row of nothing has no direction
PASSES, PASS_STEPS = 3, 5  # over each client's generator, and the model's steps in each


@dataclass(frozen=True)
class Ghost(OnGCN, Rival):
    """GHOST: each client sends a generator of its graph, the model learns from one after another.

    A client's generator imitates its training nodes' features, by class. The server draws pseudo-graphs
    from each in turn and trains the model on them, held to what mattered on the graphs before:

        CE + λ Σ_k Σ |∂T_k/∂θ| (θ - θ_k)²,   T = Σ over edges (q_iᵀ tanh q_j)², q = relu(P X W_1ᵀ) W_1

    Differs from the authors' code (github.com/JiaruQian/GHOST): labels of training nodes alone
    condition the generator, where theirs reads those of all nodes; the Gromov-Wasserstein term is taken
    at the matching of each node with its own image, where only its feature cost has a gradient; a
    hundred pseudo-nodes a graph; λ is the scale that their settings hold: with λ = 1 nothing is learnt.
    Global.
    """

    needs: ClassVar[str] = "its server trains"
    tensors: ClassVar[Mapping[str, str]] = {"labels": "the generator's embedding of each class"}

    steps: int = 100
    retention: float = 1e-11  # the scale of the authors' settings

    def share(self, local: Params, graph: Graph, federation: Federation) -> Message:
        random = federation.random("ghost generator")
        rows, labels = graph.x[graph.train], graph.training_labels
        start = fedtad.untrained(self.network(federation.model), random)
        chances, directions = rows.softmax(1), functional.normalize(rows, eps=SHORTEST)

        def loss(params: Params) -> Tensor:
            """1 - cos + (KL + squared distance) / 20, without the entropy of the rows in the KL."""
            made = fedtad.generate(params, torch.randn(len(rows), NOISE, generator=random), labels)
            divergence = -(chances * made.log_softmax(1)).sum() / len(rows)
            distance = (made - rows).square().sum(1).mean()
            cosine = (functional.normalize(made, eps=SHORTEST) * directions).sum(1).mean()
            return 1 - cosine + 0.05 * divergence + 0.05 * distance

        if not len(rows):
            return start
        return minimised(start, loss, self.steps, Recipe(rate=5e-3, decay=4e-4))

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        gcn = self.network(federation.model)
        random, labels = federation.random("ghost pseudo-graphs"), fedtad.balanced(gcn.classes)
        optimiser = Optimiser(gcn.start(federation.seed), Recipe(rate=0.01, decay=4e-4))
        params = optimiser.leaves()
        # Σ_k c_k (θ - θ_k)² has the slope 2 (θ Σ c_k - Σ c_k θ_k): two sums stand for all graphs before.
        weight, pull = torch.zeros_like(optimiser.values), torch.zeros_like(optimiser.values)
        for upload in uploads:
            for _ in range(PASSES):
                rows = fedtad.generate(upload, torch.randn(NODES, NOISE, generator=random), labels)
                around = fedtad.nearest(rows)
                messages = around @ rows
                field = fedtad.pseudo_field(messages, around, gcn)
                optimiser.slope.zero_()
                topology(params, messages, around).backward()
                importance = optimiser.slope.abs()
                for _ in range(PASS_STEPS):
                    optimiser.slope.zero_()
                    task.loss(gcn.forward(params, field).logits, labels).backward()
                    held = 2 * (optimiser.values * weight - pull)
                    optimiser.slope.add_(held, alpha=self.retention)
                    optimiser.step()
                weight, pull = weight + importance, pull + importance * optimiser.values
        return repeat(optimiser.result(), len(uploads))


def topology(params: Params, messages: Tensor, around: Tensor) -> Tensor:
    """T: how strongly the first layer answers to the graph's edges."""
    first = params["0.weight"]
    answer = (messages @ first.T + params["0.bias"]).relu() @ first
    strength = (answer @ answer.tanh().T).square()
    return (strength * (around > 0)).sum()


# --- DENSE --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dense(OnGCN, FedAvg):
    """DENSE: a student of all clients' models on generated nodes (Zhang et al., NeurIPS 2022).

    In turn, a generator looks for nodes that the mean of the clients' logits D puts into the class
    asked for and the student does not, CE(D) - KL(D ‖ student); and the student learns KL(D ‖ student).

    In its GCN form: pseudo-nodes are joined to their most similar, as FedTAD's are; a GCN has no batch
    norm, so that term is left out; ten rounds of five and ten steps. Global.
    """

    needs: ClassVar[str] = "its server distils from every client's model"

    rounds: int = 10
    searching: int = 5
    learning: int = 10

    gate = Rival.gate

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        gcn, every = self.network(federation.model), list(uploads)
        random, labels = federation.random("dense generator"), fedtad.balanced(gcn.classes)
        search = Optimiser(fedtad.untrained(gcn, random), Recipe(rate=1e-3))
        learn = Optimiser(gcn.start(federation.seed), Recipe(rate=0.01))
        generator, student = search.leaves(), learn.leaves()

        def logits(params: Params, rows: Tensor) -> Tensor:
            around = fedtad.nearest(rows.detach())
            return gcn.forward(params, fedtad.pseudo_field(around @ rows, around, gcn)).logits

        def taught(rows: Tensor) -> Tensor:
            return torch.stack([logits(upload, rows) for upload in every]).mean(0)

        def unlearnt(rows: Tensor, teacher: Tensor) -> Tensor:
            logs = logits(student, rows).log_softmax(1), teacher.log_softmax(1)
            return functional.kl_div(*logs, reduction="batchmean", log_target=True)

        def unknown(noise: Tensor) -> Tensor:
            rows = fedtad.generate(generator, noise, labels)
            teacher = taught(rows)
            return task.loss(teacher, labels) - unlearnt(rows, teacher)

        for _ in range(self.rounds):
            noise = torch.randn(NODES, NOISE, generator=random)
            descend(search, partial(unknown, noise), self.searching)
            rows = fedtad.generate(generator, noise, labels).detach()
            descend(learn, partial(unlearnt, rows, taught(rows)), self.learning)
        return repeat(learn.result(), len(every))
