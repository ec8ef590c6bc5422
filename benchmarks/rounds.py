"""Methods over many rounds, as their authors run them, and one site that holds everything.

A round: every client trains for a few epochs from what it holds, the server merges, every client
holds what came back. What is kept is the round with the best validation accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from pace.datasets import Dataset, Division
from pace.gates import mix, weigh
from pace.graph import Graph
from pace.merging import solve_rows
from pace.methods import HOPS, SCALE, STRENGTHS
from pace.models import Model, unit_rows
from pace.params import Params
from pace.protocol import Federation, Messages, Method, steps, wire
from pace.training import Recipe, learner, train

EVERY = 5  # rounds between two looks at the validation nodes
TUNED = 10  # epochs of fine-tuning


@dataclass(frozen=True)
class Schedule:
    """How often, how long and how fast."""

    rounds: int = 100
    epochs: int = 3
    rate: float = 0.01


SCHEDULES = (Schedule(), Schedule(rate=0.03), Schedule(rate=0.003))


@dataclass(frozen=True, eq=False)
class Played:
    """The best round of a schedule."""

    schedule: Schedule
    validation: float  # accuracy over all clients' validation nodes
    best: int  # which round it was
    models: list[Params]  # one for each client
    bytes: int  # that one client sent and received in all rounds


@dataclass(frozen=True)
class Compared:
    """Test accuracies, in percent, after the best round of the best schedule."""

    schedule: Schedule
    best_round: int
    bytes: int
    """That one client sent and received in all rounds."""
    received: float
    """The received model by itself."""
    fine_tuned: float
    in_the_gate: float
    """Both in the mixture with Local."""
    harmed: int
    """Receivers whose mixture is below Local."""


def play(graphs: Sequence[Graph], federation: Federation, schedule: Schedule, seed: int) -> Played:
    """All rounds of one schedule."""
    recipe = replace(federation.recipe, epochs=schedule.epochs, rate=schedule.rate)
    learners = [learner(graph, federation.network, recipe) for graph in graphs]
    held: list[Params] = [federation.start] * len(graphs)
    best = Played(schedule, -math.inf, 0, held, 0)
    for number in range(1, schedule.rounds + 1):
        trained = [
            learn(params, seed + number) for learn, params in zip(learners, held, strict=True)
        ]
        held = list(exchanged(trained, graphs, federation))
        if number % EVERY == 0 or number == schedule.rounds:
            found = accuracy(logits(held, graphs, federation), graphs, "val")
            if found > best.validation:
                best = replace(best, validation=found, best=number, models=held)
    each = wire.size(steps.upload_layout(federation)) + wire.size(steps.return_layout(federation))
    return replace(best, bytes=each * schedule.rounds)


def exchanged(
    trained: Sequence[Params], graphs: Sequence[Graph], federation: Federation
) -> Iterator[Params]:
    """One merge, as the method does it; what each client then holds."""
    method = federation.method
    with torch.no_grad():
        uploads = Messages(
            [
                {
                    name: value.float()
                    for name, value in method.share(local, graph, federation).items()
                }
                for local, graph in zip(trained, graphs, strict=True)
            ]
        )
        returned = list(method.merge(uploads, federation))
    for local, graph, message in zip(trained, graphs, returned, strict=True):
        yield method.adopt(local, message, graph, federation)[0].params


def searched(
    graphs: Sequence[Graph],
    model: Model,
    method: Method,
    seed: int,
    schedules: Sequence[Schedule] = SCHEDULES,
) -> Played:
    """The schedule that validation nodes like best."""
    federation = Federation(model, method, seed)
    played = (play(graphs, federation, schedule, seed) for schedule in schedules)
    return max(played, key=lambda found: found.validation)


def tuned(played: Played, graphs: Sequence[Graph], federation: Federation) -> list[Params]:
    """The best round's models, trained for a few more epochs at home."""
    recipe = replace(federation.recipe, epochs=TUNED, rate=played.schedule.rate)
    return [
        train(graph, federation.network, params, recipe=recipe, seed=federation.seed)
        for graph, params in zip(graphs, played.models, strict=True)
    ]


def compared(
    graphs: Sequence[Graph],
    model: Model,
    method: Method,
    locals_: Sequence[Tensor],
    seed: int,
    schedules: Sequence[Schedule] = SCHEDULES,
) -> Compared:
    """Play the schedules and score the best round on test nodes.

    `locals_` are the logits of Local, as PACE trains it.
    """
    federation = Federation(model, method, seed)
    played = searched(graphs, model, method, seed, schedules)
    external = logits(played.models, graphs, federation)
    fine = logits(tuned(played, graphs, federation), graphs, federation)
    gated = [
        mix(sets, weigh([each[graph.val] for each in sets], graph.y[graph.val]))
        for graph, sets in zip(graphs, zip(locals_, external, fine, strict=True), strict=True)
    ]
    return Compared(
        schedule=played.schedule,
        best_round=played.best,
        bytes=played.bytes,
        received=accuracy(external, graphs, "test"),
        fine_tuned=accuracy(fine, graphs, "test"),
        in_the_gate=accuracy(gated, graphs, "test"),
        harmed=harmed(gated, locals_, graphs),
    )


def logits(
    models: Sequence[Params], graphs: Sequence[Graph], federation: Federation
) -> list[Tensor]:
    with torch.no_grad():
        return [
            federation.network(params, graph).logits
            for params, graph in zip(models, graphs, strict=True)
        ]


def accuracy(logits: Sequence[Tensor], graphs: Sequence[Graph], mask: str) -> float:
    """Percent over the nodes of all clients."""
    right = [hits(each, graph, mask) for each, graph in zip(logits, graphs, strict=True)]
    return 100 * sum(right) / sum(int(getattr(graph, mask).sum()) for graph in graphs)


def harmed(adopted: Sequence[Tensor], locals_: Sequence[Tensor], graphs: Sequence[Graph]) -> int:
    """Receivers that end below Local on their test nodes."""
    return sum(
        hits(after, graph, "test") < hits(before, graph, "test")
        for after, before, graph in zip(adopted, locals_, graphs, strict=True)
    )


def hits(logits: Tensor, graph: Graph, mask: str) -> int:
    """How many nodes of a mask are right."""
    chosen = getattr(graph, mask)
    return int((logits.argmax(1) == graph.y)[chosen].sum())


def whole(dataset: Dataset, division: Division) -> Graph:
    """The undivided graph with every client's masks."""
    masks = torch.zeros((3, dataset.graph.nodes), dtype=torch.bool)
    for nodes, graph in zip(division.nodes, division, strict=True):
        for mask, part in zip(masks, (graph.train, graph.val, graph.test), strict=True):
            mask[torch.as_tensor(nodes, dtype=torch.int64)] = part
    before = dataset.graph
    return Graph(before.x, before.edges, before.y, *masks)


def ceiling(graph: Graph, model: Model, seeds: Sequence[int]) -> dict[str, list[float]]:
    """Test accuracy by seed: a GCN, the ridge regressions weighed on validation nodes, and both."""
    labels = one_hot(graph.training_labels, model.classes).double()
    regressed = []
    for hop in HOPS:
        rows = unit_rows(graph, hop)
        answers = solve_rows(rows[graph.train].double(), labels, STRENGTHS)
        regressed += [SCALE * (rows @ answer.float()) for answer in answers]
    found: dict[str, list[float]] = {"gcn": [], "ridge": [], "both": []}
    for seed in seeds:
        local = train(graph, model, model.start(seed), recipe=Recipe(), seed=seed)
        with torch.no_grad():
            network = model(local, graph).logits
        sets = {"gcn": [network], "ridge": regressed, "both": [network, *regressed]}
        for name, each in sets.items():
            weights = weigh([part[graph.val] for part in each], graph.y[graph.val])
            found[name].append(accuracy([mix(each, weights)], [graph], "test"))
    return found
