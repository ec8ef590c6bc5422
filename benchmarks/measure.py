"""Training against the plain PyG loop, which everybody writes: the GCN, and every kind of model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch_geometric import nn as pyg

from benchmarks.clock import Point, compared, in_turns, timed
from pace.graph import Graph
from pace.models import APPNP, GAT, GCN, MODELS, Model, sized
from pace.protocol import SEEDS
from pace.training import Recipe, train_cohort

EPOCHS = 100  # the paper's budget
SAMPLE = 10  # epochs of it that the plain loop is made to run on a CPU, where a step is slow
LOOP = "the plain PyG loop"


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


def fresh(graph: Graph) -> Graph:
    """The graph with nothing computed yet; it has been checked before."""
    again = object.__new__(Graph)
    for field in fields(Graph):
        object.__setattr__(again, field.name, getattr(graph, field.name))
    return again


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
            train_loop(network(kind, model), graph, epochs, device)

    def seconds() -> float:
        if device == "cuda":
            return times * timed(lambda: loop(EPOCHS))
        ready, sample = timed(lambda: loop(0)), timed(lambda: loop(SAMPLE))
        return times * (ready + max(0.0, sample - ready) * EPOCHS / SAMPLE)

    return seconds


def train_loop(net: nn.Module, graph: Graph, epochs: int, device: str = "cpu") -> None:
    """Full-batch Adam on the training nodes."""
    net.to(device).train()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    x, edges, y, train = (part.to(device) for part in (graph.x, graph.edges, graph.y, graph.train))
    for _ in range(epochs):
        optimiser.zero_grad()
        cross_entropy(net(x, edges)[train], y[train]).backward()
        optimiser.step()


def network(kind: str, model: Model) -> nn.Module:
    """The same network of PyG's layers, with ReLU and dropout between them."""
    layers: list[Any] = []
    for place in range(len(model.widths) - 1):
        layers += [nn.ReLU(), nn.Dropout(model.dropout)] if place else []
        layers.append(layer(kind, model, place))
    if isinstance(model, APPNP):
        layers.append(pyg.APPNP(K=model.hops, alpha=model.teleport))
    reads = ["x, edges" if isinstance(each, pyg.MessagePassing) else "x" for each in layers]
    steps = [(each, f"{read} -> x") for each, read in zip(layers, reads, strict=True)]
    made: nn.Module = pyg.Sequential("x, edges", steps)
    return made


def layer(kind: str, model: Model, place: int) -> Any:
    """One of PyG's layers, as its examples write it: SGC's features are cached."""
    wide, out = model.widths[place : place + 2]
    last = place + 2 == len(model.widths)
    if isinstance(model, GAT):
        return pyg.GATConv(wide, model.channels(place), model.heads, concat=not last)
    match kind:
        case "gin":
            inside = wide if last and place else out
            layers = nn.Linear(wide, inside), nn.ReLU(), nn.Linear(inside, out)
            return pyg.GINConv(nn.Sequential(*layers))
        case "sgc":
            return pyg.SGConv(wide, out, K=len(model.widths) - 1, cached=True)
        case _:
            kinds = {"gcn": pyg.GCNConv, "sage": pyg.SAGEConv}
            return kinds.get(kind, nn.Linear)(wide, out)
