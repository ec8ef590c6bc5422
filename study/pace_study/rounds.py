"""Methods over many rounds: what a hundred exchanges leave at each client, in the same gate.

A many-round method is played here and then goes through the study as any other: `Played` gives its
models to each receiver, which weighs them beside Local. Its trial counts the bytes of all rounds.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from itertools import accumulate
from operator import itemgetter

import torch
from torch import Tensor

from pace.graph import MASKS, Graph
from pace.methods import Local, make
from pace.methods.beyond.ridge import HOPS
from pace.models import ALL, FITS, MLP, Model, Network, Refitted, refitted, unit_rows
from pace.params import Params, size
from pace.protocol import External, Federation, Message, Messages, layouts
from pace.reports import Trial
from pace.task import called, targets
from pace.training import Optimiser, Recipe, learner, train, train_through
from pace_study.baselines.rivals import Rival

PARTS = ("x", "y", *MASKS, "weights")  # of a graph, a row for each node or edge


@dataclass(frozen=True)
class Reader:
    """How a model that the rounds left predicts: by a network on features, or on the ridge's rows."""

    network: Network
    rows: bool = False

    def __call__(self, params: Params, graph: Graph) -> Tensor:
        return self.network(params, with_rows(graph) if self.rows else graph).logits


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the rounds left behind."""

    models: Mapping[str, Sequence[list[External]]]  # fit -> client -> its models
    upload: int  # bytes of one client in all rounds
    returned: int
    sent: Sequence[External] | None = None  # each client's model, where it sends that and not steps


@dataclass(frozen=True)
class Played(Local):
    """A many-round method as one that sends nothing: its receivers find what the rounds left them.

    It is played where the graphs are; models that are left are on the CPU.
    """

    rounds: "FedAdam | Averaged | Stacked"
    graphs: InitVar[Sequence[Graph]] = ()
    device: InitVar[str] = "cpu"

    def __post_init__(self, graphs: Sequence[Graph], device: str) -> None:
        vars(self).update(_graphs=graphs, _device=device, _outcomes={})

    gate = Rival.gate

    def network(self, model: Model) -> Network:
        return Refitted(model) if self.rounds.every_label else model

    def played(self, federation: Federation) -> tuple[Outcome, float]:
        """What the federation's seed left, played once, and the seconds that it took."""
        outcomes: dict[int, tuple[Outcome, float]] = self._outcomes  # type: ignore[attr-defined]
        if federation.seed not in outcomes:
            began = time.perf_counter()
            graphs = [graph.to(self._device) for graph in self._graphs]  # type: ignore[attr-defined]
            played = self.rounds.play(graphs, federation)
            outcomes[federation.seed] = played, time.perf_counter() - began
        return outcomes[federation.seed]

    def adopt(
        self, local: Params, returned: Message, graph: Graph, federation: Federation
    ) -> list[External]:
        """With every label also models of training nodes, for the others to weigh, and in reverse."""
        (client,) = (index for index, own in enumerate(self._graphs) if own is graph)  # type: ignore[attr-defined]
        outcome, _ = self.played(federation)
        models = {fit: clients[client] for fit, clients in outcome.models.items()}
        if not self.rounds.every_label:
            return models[FITS[0]]
        externals = list(models[ALL])
        for fit, held_out in (FITS[:2], FITS[1::-1]):
            if fit in refitted.trained_fits(graph):
                own = External(refitted.fit_of(local, fit), predict=Reader(federation.model))
                weighing = [own, *models[fit]]
                externals += [replace(external, held_out=held_out) for external in weighing]
        return externals

    def finish(self, trial: Trial, federation: Federation) -> Trial:
        """The trial with the bytes and seconds of all rounds."""
        (outcome, took), clients = self.played(federation), len(trial.alphas)
        seconds = trial.seconds | {
            "fit": trial.seconds["fit"] + took,
            "adopt": max(0.0, trial.seconds["adopt"] - took),  # where it was played
        }
        upload, returned = [outcome.upload] * clients, [outcome.returned] * clients
        return replace(trial, upload=upload, returned=returned, seconds=seconds)


@dataclass(frozen=True)
class FedAdam:
    """One gradient a round, Adam at the server (Reddi et al., 2021), the best of four checkpoints.

    The mean of clients' gradients weighted by their nodes is the gradient of the mean loss over all
    their nodes, so a hundred rounds are a hundred steps of Adam on the disjoint union of their graphs:
    that is how they are played. With `features`, an MLP as wide on the ridge's rows is trained beside
    the model.
    """

    rounds: int = 100
    rate: float = 0.01
    features: bool = False
    every_label: bool = False  # fit on training and on validation nodes and on both, as pace-full

    def play(self, graphs: Sequence[Graph], federation: Federation) -> Outcome:
        fits = FITS if self.every_label else FITS[:1]
        trained = [("FedAdam", federation.model, graphs)]
        if self.features:
            features, *widths = federation.model.widths
            mlp = MLP((len(HOPS) * features, *widths))
            trained.append(("FedAdam on the ridge's rows", mlp, list(map(with_rows, graphs))))
        models: dict[str, list[External]] = {fit: [] for fit in fits}
        sent = 0
        for name, network, inputs in trained:
            reader = Reader(network, inputs is not graphs)
            for fit, params in self._best(inputs, network, fits, federation.seed).items():
                models[fit].append(External(params, name, reader))
                sent += size(params) * self.rounds
        everywhere = {fit: [externals] * len(graphs) for fit, externals in models.items()}
        return Outcome(everywhere, sent, sent)

    def _best(
        self, graphs: Sequence[Graph], network: Network, fits: Sequence[str], seed: int
    ) -> dict[str, Params]:
        """Each fit's parameters at the checkpoint that held-out nodes like best."""
        whole, recipe = disjoint_union(graphs), Recipe(rate=self.rate)
        looks = [self.rounds * quarter // 4 for quarter in range(1, 5)]
        trained = []
        for fit in fits:
            start, own = network.start(seed), refitted.fitted_on(whole, fit)
            trained.append(train_through(own, network, start, recipe, seed, stops=looks))

        def hits(checkpoint: Sequence[Params]) -> int:
            held_out = zip(checkpoint, FITS[1::-1], strict=False)
            return sum(right(params, whole, other, network) for params, other in held_out)

        best = max(zip(*trained, strict=True), key=hits)
        return dict(zip(fits, map(on_cpu, best), strict=True))


@dataclass(frozen=True)
class Averaged:
    """A method of one exchange, repeated: a few epochs, a merge, and again from what came back.

    The rate and the round are those that validation nodes like best; ten epochs of fine-tuning at home
    give a second model.
    """

    method: str
    rounds: int = 100
    epochs: int = 3
    rates: tuple[float, ...] = (0.01, 0.03, 0.003)
    every_label: bool = False

    def play(self, graphs: Sequence[Graph], federation: Federation) -> Outcome:
        inner = Federation(federation.model, make(self.method), federation.seed)
        played = [self._at_rate(rate, graphs, inner) for rate in self.rates]
        _, rate, received = max(played, key=itemgetter(0))
        recipe = replace(inner.recipe, epochs=10, rate=rate)
        reader, models = Reader(inner.network), []
        for graph, params in zip(graphs, received, strict=True):
            tuned = train(graph, inner.network, params, recipe=recipe, seed=inner.seed)
            both = {"received": params, "tuned": tuned}
            models.append([External(on_cpu(own), name, reader) for name, own in both.items()])
        upload, returned = layouts.upload_layout(inner).size, layouts.return_layout(inner).size
        return Outcome({FITS[0]: models}, upload * self.rounds, returned * self.rounds)

    def _at_rate(
        self, rate: float, graphs: Sequence[Graph], federation: Federation
    ) -> tuple[int, float, list[Params]]:
        """Validation nodes called right, rate and models of the best round."""
        recipe = replace(federation.recipe, epochs=self.epochs, rate=rate)
        learners = [learner(graph, federation.network, recipe) for graph in graphs]
        models: list[Params] = [federation.start] * len(graphs)
        best = (-1, rate, models)
        for number in range(1, self.rounds + 1):
            seed = federation.seed + number
            trained = [learn(params, seed) for learn, params in zip(learners, models, strict=True)]
            models = merged(trained, graphs, federation)
            if number % 5 == 0 or number == self.rounds:
                pairs, network = zip(models, graphs, strict=True), federation.network
                hits = sum(right(params, graph, "val", network) for params, graph in pairs)
                best = max(best, (hits, rate, models), key=itemgetter(0))
        return best


@dataclass(frozen=True)
class Stacked:
    """FENS: every client gets everybody's model and they train what weighs them (Allouah et al., 2024).

        logits = [z_1, ..., z_K] A + b,   A and b trained over rounds, from the mean of the K models

    The authors train A on training data that the models have not seen; here those are the validation
    nodes, so no gate weighs it beside Local. A round is one gradient of all clients with Adam, which is
    a step on their nodes together; A is linear, their simplest.
    """

    rounds: int = 100
    rate: float = 0.01
    every_label: bool = False

    def play(self, graphs: Sequence[Graph], federation: Federation) -> Outcome:
        network, classes = federation.model, federation.model.classes
        start = network.start(federation.seed)
        models = [
            on_cpu(train(graph, network, start, recipe=federation.recipe, seed=federation.seed))
            for graph in graphs
        ]

        def stacked(graph: Graph) -> Tensor:
            """All models' logits side by side."""
            return torch.cat([network(params, graph).logits for params in models], 1)

        def weighed(params: Params, graph: Graph) -> Tensor:
            return stacked(graph) @ params["weight"] + params["bias"]

        at_home = [graph.to("cpu") for graph in graphs]
        rows = torch.cat([stacked(graph)[graph.val] for graph in at_home])
        hot = targets(torch.cat([graph.y[graph.val] for graph in at_home]), classes)
        weight, bias = torch.eye(classes).repeat(len(models), 1) / len(models), torch.zeros(classes)
        optimiser = Optimiser({"weight": weight, "bias": bias}, Recipe(rate=self.rate))
        for _ in range(self.rounds if len(rows) else 0):
            params = optimiser.params
            apart = ((rows @ params["weight"] + params["bias"]).softmax(1) - hot) / len(rows)
            optimiser.gradients["weight"].copy_(rows.T @ apart)
            optimiser.gradients["bias"].copy_(apart.sum(0))
            optimiser.step()
        head = optimiser.result()
        externals = [[External(head, "FENS", weighed)]] * len(graphs)
        whole, small = size(start), size(head) * self.rounds
        sent = list(map(External, models))
        return Outcome({FITS[0]: externals}, whole + small, whole * len(models) + small, sent)


def merged(
    trained: Sequence[Params], graphs: Sequence[Graph], federation: Federation
) -> list[Params]:
    """One merge, as the method does it; what each client then holds."""
    method, uploads, device = federation.method, Messages(), graphs[0].x.device
    for local, graph in zip(trained, graphs, strict=True):
        message = method.share(local, graph, federation)
        uploads.append({name: v.to(device, torch.float32) for name, v in message.items()})
    returns = zip(trained, method.merge(uploads, federation), graphs, strict=True)
    return [method.adopt(*receiver, federation)[0].params for receiver in returns]


def on_cpu(params: Params) -> dict[str, Tensor]:
    return {name: value.cpu() for name, value in params.items()}


def right(params: Params, graph: Graph, fit: str, network: Network) -> int:
    """How many nodes of a fit a model calls what they are."""
    correct = called(network(params, graph).logits) == graph.y
    return int(correct[refitted.fitted_nodes(graph, fit)].sum())


def disjoint_union(graphs: Sequence[Graph]) -> Graph:
    """All clients' graphs as one, without an edge between clients."""
    starts = accumulate((graph.nodes for graph in graphs), initial=0)
    edges = [graph.edges + first for graph, first in zip(graphs, starts, strict=False)]
    parts = {name: [getattr(graph, name) for graph in graphs] for name in PARTS}
    joined = {name: torch.cat(each) for name, each in parts.items() if each[0] is not None}
    return replace(graphs[0], edges=torch.cat(edges, 1), **joined)  # type: ignore[arg-type]


def with_rows(graph: Graph) -> Graph:
    """The graph with the ridge's rows of every hop side by side as features, and no edges."""
    every = torch.ones_like(graph.train)
    rows = torch.cat([unit_rows(graph, hop)[every] for hop in HOPS], 1)
    return replace(graph, x=rows, edges=graph.edges[:, :0], weights=None, directed=False)


ROUNDS: Mapping[str, FedAdam | Averaged | Stacked] = {
    "fedavg-rounds": Averaged("fedavg"),
    "fedpub-rounds": Averaged("fedpub"),
    "fedgta-rounds": Averaged("fedgta"),
    "fens": Stacked(),
    "fedadam": FedAdam(),
    "fedadam-rows": FedAdam(features=True),
    "fedadam-full": FedAdam(features=True, every_label=True),
}
