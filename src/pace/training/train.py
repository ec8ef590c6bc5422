"""Local training: a fixed budget from the public start, the last checkpoint kept (Section 4.1)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, product
from typing import Any, TypeGuard

import torch
from torch import Tensor

from pace.graph import Graph
from pace.models import FITS, GCN, Network, Refitted, refitted
from pace.params import Params
from pace.task import loss
from pace.training.cohorts import Checkpoints, gpu_cohort
from pace.training.dropout import Activation, Dropout, scale
from pace.training.optimiser import Gradient, Optimiser, Proximal, Recipe, Target

Progress = Callable[[int], None]
Learn = Callable[[Params, int], dict[str, Tensor]]  # (W_0, seed) -> W_L
# (W_0, seed, numbers of epochs, ascending) -> the parameters after each of them
Walk = Callable[[Params, int, Sequence[int]], Iterator[dict[str, Tensor]]]


def silent(done: int) -> None:
    """Progress that is not shown."""


def train(
    graph: Graph,
    model: Network,
    start: Params,
    *,
    recipe: Recipe,
    seed: int,
    progress: Progress | None = None,
) -> dict[str, Tensor]:
    """W_L: `recipe.epochs` full-batch steps on the mean cross-entropy of the training nodes.

    A client without training nodes has nothing to learn and keeps the start. What a client learns
    depends on its graph, the federation and the seed: its dropout is its own.
    """
    return learner(graph, model, recipe, progress or silent)(start, seed)


def train_cohort(
    graphs: Sequence[Graph],
    model: Network,
    starts: Mapping[int, Params],
    *,
    recipe: Recipe,
    device: torch.device | str = "cpu",
    progress: Progress = silent,
    checkpoints: Checkpoints | None = None,
) -> dict[int, list[dict[str, Tensor]]]:
    """`train` for every client and every seed of `starts` (seed -> W_0): by seed, in order of clients.

    `progress` is called with the seed of each model that is done; `checkpoints` has those that were
    trained before, and takes the others. A CPU takes client by client and makes its constants once
    for all seeds; a GPU takes all clients and seeds at once, with pace-gpu. Each model equals what
    training it alone gives.
    """
    if isinstance(model, Refitted):
        how = {"recipe": recipe, "device": device, "checkpoints": checkpoints}
        return _train_refits(graphs, model, starts, progress, **how)
    learnt: dict[int, dict[int, dict[str, Tensor]]] = {seed: {} for seed in starts}

    def keep(client: int, seed: int, local: Params) -> None:
        learnt[seed][client] = {name: value.cpu() for name, value in local.items()}
        if checkpoints:
            checkpoints.write(graphs[client], seed, learnt[seed][client])
        progress(seed)

    for client, seed in product(range(len(graphs)), starts):
        if checkpoints and (earlier := checkpoints.read(graphs[client], seed)):
            learnt[seed][client] = earlier
            progress(seed)
    # A clipped step needs the norm of one client's gradient.
    cohort = gpu_cohort(device) if recipe.clip is None and has_closed_form(model, recipe) else None
    if cohort is not None:
        done = set[int]().union(*learnt.values())
        at_once = {
            client: graph
            for client, graph in enumerate(graphs)
            if client not in done and graph.train.any() and cohort.knows(graph)
        }
        batches = cohort.batches(at_once, starts, device)
        with torch.cuda.device(device):  # Triton and graphs take the current one
            for batch in batches:
                chosen = [at_once[client] for client in batch]
                for seed, models in cohort.learn(chosen, model, starts, recipe, device).items():
                    for client, local in zip(batch, models, strict=True):
                        keep(client, seed, local)
    for client, graph in enumerate(graphs):
        if waiting := [seed for seed in starts if client not in learnt[seed]]:
            learn = learner(graph.to(device), model, recipe)
            for seed in waiting:
                keep(client, seed, learn(starts[seed], seed))
    return {seed: [models[client] for client in sorted(models)] for seed, models in learnt.items()}


def _train_refits(
    graphs: Sequence[Graph],
    model: Refitted,
    starts: Mapping[int, Params],
    progress: Progress,
    **how: Any,
) -> dict[int, list[dict[str, Tensor]]]:
    """`train_cohort` of each fit; models are counted as done with the last."""
    parts = list(map(refitted.fitted_graphs, graphs))
    learnt: dict[int, list[dict[str, Params]]] = {seed: [{} for _ in graphs] for seed in starts}
    for fit in reversed(FITS):
        clients = [client for client, own in enumerate(parts) if fit in own]
        models = train_cohort(
            [parts[client][fit] for client in clients],
            model.inner,
            {seed: refitted.fit_of(start, fit) for seed, start in starts.items()},
            progress=progress if fit == FITS[0] else silent,
            **how,
        )
        for seed, (index, client) in product(starts, enumerate(clients)):
            learnt[seed][client][fit] = models[seed][index]
    return {seed: list(map(refitted.joined, clients)) for seed, clients in learnt.items()}


def has_closed_form(model: Network, recipe: Recipe) -> TypeGuard[GCN]:
    """Whether this is the shared GCN, and all it is trained on besides the cross-entropy is a pull."""
    if recipe.clip is not None and recipe.penalty is not None:
        return False  # the norm depends on columns that the closed form leaves out
    return isinstance(model, GCN) and isinstance(recipe.penalty, Proximal | None)


def learner(graph: Graph, model: Network, recipe: Recipe, progress: Progress = silent) -> Learn:
    """How one client trains from any start: in closed form if there is one, else by autograd."""
    if isinstance(model, Refitted):
        parts = {}
        for fit, part in refitted.fitted_graphs(
            graph
        ).items():  # a bar counts the last one's epochs
            counted = progress if fit == FITS[0] else silent
            parts[fit] = learner(part, model.inner, recipe, counted)
        return lambda start, seed: refitted.joined(
            {fit: learn(refitted.fit_of(start, fit), seed) for fit, learn in parts.items()}
        )
    walk = walker(graph, model, recipe, progress)
    return lambda start, seed: next(walk(start, seed, [recipe.epochs]))


def train_through(
    graph: Graph, model: Network, start: Params, recipe: Recipe, seed: int, stops: Sequence[int]
) -> list[dict[str, Tensor]]:
    """What `train` gives after each of some numbers of epochs, ascending, trained once."""
    return list(walker(graph, model, recipe, silent)(start, seed, stops))


def walker(graph: Graph, model: Network, recipe: Recipe, progress: Progress) -> Walk:
    """How one client trains and is looked at on the way; without training nodes it keeps the start."""
    if not graph.train.any():
        device = graph.x.device
        return lambda start, seed, stops: (
            {name: value.to(device).clone() for name, value in start.items()} for _ in stops
        )
    if has_closed_form(model, recipe):
        return closed_form(graph, model, recipe, progress)
    return by_autograd(graph, model, recipe, progress)


def closed_form(graph: Graph, gcn: GCN, recipe: Recipe, progress: Progress) -> Walk:
    """Training by gradients in closed form.

    An input column that is zero in the whole receptive field is left out: it decays by itself. Every
    walk takes its steps in the same buffers, so one has to end before the next begins.
    """
    target = Target.of(graph.training_labels, gcn.classes)
    first, *above = gcn.field(graph, graph.train).operators
    active = first.active
    if len(active) < first.shape[1]:
        first = first.columns(active)
    operators = [first, *(operator.times(scale(gcn.dropout)) for operator in above)]
    rows = (operator.shape[1] for operator in above)
    shapes = list(zip(rows, gcn.widths[1:-1], strict=True))
    blank = {name: torch.zeros(shape, device=active.device) for name, shape in gcn.shapes.items()}
    blank["0.weight"] = blank["0.weight"][:, : len(active)]
    optimiser = Optimiser(blank, recipe)
    gradient = Gradient(optimiser.params, optimiser.gradients, operators, target)

    def walk(start: Params, seed: int, stops: Sequence[int]) -> Iterator[dict[str, Tensor]]:
        whole = {name: value.to(active.device) for name, value in start.items()}
        weight = whole["0.weight"]
        optimiser.restart({**whole, "0.weight": weight.index_select(1, active)})
        activate = Activation(Dropout(gcn.dropout, seed, graph), shapes)
        for done, stop in pairwise([0, *stops]):
            with torch.inference_mode():  # autograd has nothing to record
                for epoch in range(done, stop):
                    gradient(activate)
                    optimiser.step()
                    progress(epoch + 1)
            local = optimiser.result()
            if len(active) < weight.shape[1]:
                idle = decayed(weight, replace(recipe, epochs=stop)).clone()
                idle[:, active] = optimiser.params["0.weight"]
                local["0.weight"] = idle
            yield local

    return walk


def by_autograd(graph: Graph, model: Network, recipe: Recipe, progress: Progress) -> Walk:
    """Training of any network on any loss that torch can differentiate."""
    field = model.field(graph, graph.train)
    labels = graph.training_labels

    def walk(start: Params, seed: int, stops: Sequence[int]) -> Iterator[dict[str, Tensor]]:
        dropout = Dropout(model.dropout, seed, graph)
        anchor = {name: value.to(graph.x.device) for name, value in start.items()}
        optimiser = Optimiser(anchor, recipe, pulled=False)
        local = optimiser.leaves()
        for done, stop in pairwise([0, *stops]):
            for epoch in range(done, stop):
                seen = model.forward(local, field, dropout)
                error = loss(seen.logits, labels)
                if recipe.penalty is not None:
                    outputs = tuple(map(torch.Tensor.__getitem__, seen.outputs, field.centers))
                    error = error + recipe.penalty(local, anchor, outputs, labels)
                optimiser.slope.zero_()
                error.backward()
                optimiser.step()
                progress(epoch + 1)
            yield optimiser.result()

    return walk


@lru_cache(maxsize=8)
def decayed(weight: Tensor, recipe: Recipe) -> Tensor:
    """Where a weight of the start ends that only decays: the same for all clients."""
    optimiser = Optimiser({"weight": weight}, recipe)
    for _ in range(recipe.epochs):
        optimiser.slope.zero_()
        optimiser.step()
    return optimiser.result()["weight"]
