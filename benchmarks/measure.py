"""Training against the plain PyG loop: the GCN, and every kind of model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from statistics import median

from benchmarks import peers
from benchmarks.clock import Point, compared, in_turns, timed
from pace.graph import Graph
from pace.models import GCN, MODELS, Model, sized
from pace.protocol import SEEDS
from pace.training import Recipe, train_cohort

EPOCHS = 100  # the paper's budget
SAMPLE = 10  # epochs of it that the plain loop is made to run on a CPU, where a step is slow
LOOP = "the plain PyG loop"


def fresh(graph: Graph) -> Graph:
    """The graph with nothing computed yet; it has been checked before."""
    again = object.__new__(Graph)
    for field in fields(Graph):
        object.__setattr__(again, field.name, getattr(graph, field.name))
    return again


def training(
    name: str, graphs: Sequence[Graph], gcn: GCN, device: str, turns: int
) -> Iterator[Point]:
    """From client graphs to local models: one seed on a CPU, five at once on a GPU."""
    seeds = SEEDS if device == "cuda" else SEEDS[:1]
    ours = partial(train_anew, graphs, gcn, seeds, device)
    loop = plain_loop(graphs, "gcn", gcn, device, times=len(seeds))
    pairs = in_turns(partial(ours, EPOCHS), loop, turns)
    yield compared("training", name, LOOP, pairs)
    if device == "cuda":
        # Most of a short training on a GPU is setting up: graphs, dropout, a capture.
        more = [(timed(partial(ours, 3 * EPOCHS)) - own) / 2 for own, _ in pairs]
        if min(more) > 0:  # otherwise the clock's own noise is longer than they are
            theirs = median(seconds for _, seconds in pairs)
            yield compared("100 more epochs", name, LOOP, [(own, theirs) for own in more])


def every_model(
    name: str, graphs: Sequence[Graph], gcn: GCN, device: str, turns: int
) -> Iterator[Point]:
    """Every kind of model with the GCN's widths, one seed."""
    features, hidden, classes = gcn.widths
    for kind in MODELS:
        model = sized(kind, features, hidden, 2, classes)
        ours = partial(train_anew, graphs, model, SEEDS[:1], device, EPOCHS)
        pairs = in_turns(ours, plain_loop(graphs, kind, model, device), turns)
        yield compared(f"training {kind}", name, LOOP, pairs)


def train_anew(
    graphs: Sequence[Graph], model: Model, seeds: Sequence[int], device: str, epochs: int
) -> None:
    """Train with all that is constant made anew."""
    starts = {seed: model.start(seed) for seed in seeds}
    train_cohort(list(map(fresh, graphs)), model, starts, recipe=Recipe(epochs), device=device)


def plain_loop(
    graphs: Sequence[Graph], kind: str, model: Model, device: str, *, times: int = 1
) -> Callable[[], float]:
    """The seconds that the plain loop takes for all clients and the paper's whole budget, so many times.

    On a GPU all of it is run, with the data already there. On a CPU set-up and steps are timed apart
    and only the steps are scaled, from `SAMPLE` epochs to the budget.
    """
    placed = [graph.to(device) for graph in graphs]

    def loop(epochs: int) -> None:
        for graph in placed:
            peers.train_loop(peers.network(kind, model), graph, epochs, device)

    def seconds() -> float:
        if device == "cuda":
            return times * timed(lambda: loop(EPOCHS))
        ready, sample = timed(lambda: loop(0)), timed(lambda: loop(SAMPLE))
        return times * (ready + max(0.0, sample - ready) * EPOCHS / SAMPLE)

    return seconds
