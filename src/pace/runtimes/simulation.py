"""Runtime 1: every party in this process, every message through bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pace.graph import Graph
from pace.jobs import sealing
from pace.metrics import confusion, roc_auc
from pace.models import Model
from pace.params import Params, size
from pace.protocol import steps
from pace.protocol.federation import Federation, describe
from pace.protocol.method import Method
from pace.protocol.sealing import Seal, check_sealable
from pace.reports.trial import READINGS, Trial
from pace.training.forward import Forward
from pace.training.train import train_cohort


def simulate(
    graphs: Sequence[Graph],
    model: Model,
    methods: Mapping[str, Method],
    seeds: Sequence[int],
    *,
    epochs: int | None = None,
    rate: float | None = None,
    decay: float | None = None,
    numbers: str = "",
    sealed: bool = False,
    device: torch.device | str = "cpu",
    progress: Callable[[str], None] = lambda step: None,
) -> Iterator[Trial]:
    """Run every method on every seed; `progress` is told of each of `progress_steps(...)`.

    Where epochs, learning rate, weight decay and numbers are not given, they are each method's own.

    With `sealed`, every client has a key that lives as long as the trial, and the server sees sums.
    """
    if sealed:
        for name, method in methods.items():
            check_sealable(method, name)
    federations = {
        seed: {
            name: Federation(
                model,
                method,
                seed,
                epochs,
                numbers=numbers,
                rate=rate,
                decay=decay,
                sealed=sealed,
                clients=len(graphs) if sealed else 0,
            )
            for name, method in methods.items()
        }
        for seed in seeds
    }
    for members in by_training(federations[seeds[0]]).values():

        def one_more(seed: int, named: str = ", ".join(members)) -> None:
            progress(f"seed {seed}: training for {named}")

        began = time.perf_counter()
        shared = [federations[seed][members[0]] for seed in seeds]
        learnt = _trained(graphs, shared, device, one_more)
        trained = (time.perf_counter() - began) / len(seeds)
        forward = Forward(graphs, shared[0].network, device)
        own = forward([[learnt[seed][client] for seed in seeds] for client in range(len(graphs))])
        for name in members:
            rounds = [_round(federations[seed][name], graphs, learnt[seed]) for seed in seeds]
            for trial in _trials(name, rounds, own, trained, forward):
                yield trial
                progress(f"seed {trial.seed}: {name} done")


def progress_steps(
    clients: int, model: Model, methods: Mapping[str, Method], seeds: Sequence[int]
) -> int:
    """How often `simulate` reports progress."""
    groups = by_training({name: Federation(model, method) for name, method in methods.items()})
    return len(seeds) * (clients * len(groups) + len(methods))


def by_training(federations: Mapping[str, Federation]) -> dict[str, list[str]]:
    """Method names by how their clients train: equal recipe and network, one training."""
    groups: dict[str, list[str]] = {}
    for name, federation in federations.items():
        key = repr(describe((federation.recipe, federation.network)))
        groups.setdefault(key, []).append(name)
    return groups


def _trained(
    graphs: Sequence[Graph],
    federations: Sequence[Federation],
    device: torch.device | str,
    progress: Callable[[int], None],
) -> dict[int, list[dict[str, Tensor]]]:
    """Local models by seed, in order of clients, of federations that differ in their seed alone."""
    for graph in graphs:
        steps.check(graph, federations[0])
    return train_cohort(
        graphs,
        federations[0].network,
        {federation.seed: federation.start for federation in federations},
        recipe=federations[0].recipe,
        device=device,
        progress=progress,
    )


@dataclass(frozen=True, eq=False)
class _Round(steps.Returned):
    """A round that is played up to its returns."""

    uploads: Sequence[bytes]
    seconds: dict[str, float]


def _round(federation: Federation, graphs: Sequence[Graph], locals_: Sequence[Params]) -> _Round:
    clock = [time.perf_counter()]
    seals = _seals(len(graphs), federation)
    fitted = [
        steps.share(local, graph, federation, seal)
        for local, graph, seal in zip(locals_, graphs, seals, strict=True)
    ]
    clock.append(time.perf_counter())
    uploads = [upload for _, upload in fitted]
    returns = steps.merge(uploads, federation)
    clock.append(time.perf_counter())
    seconds = {"fit": clock[1] - clock[0], "merge": clock[2] - clock[1]}
    return _Round(federation, [kept for kept, _ in fitted], returns, uploads, seconds)


def _trials(
    name: str,
    rounds: Sequence[_Round],
    own: Sequence[Sequence[Tensor]],
    trained: float,
    forward: Forward,
) -> Iterator[Trial]:
    """Every receiver of every seed adopts at once; then one trial a seed."""
    began = time.perf_counter()
    adopted = steps.adopt_all(rounds, own, forward)
    took = (time.perf_counter() - began) / len(rounds)
    for played, adoptions in zip(rounds, adopted, strict=True):
        federation = played.federation
        classes = federation.model.classes
        pairs = list(zip(adoptions, forward.graphs, strict=True))
        yield Trial(
            name,
            federation.seed,
            [adoption.alpha for adoption in adoptions],
            {
                reading: [evaluate(logits(adoption), graph, classes) for adoption, graph in pairs]
                for reading, logits in READINGS.items()
            },
            [len(upload) for upload in played.uploads],
            [len(returned) for returned in played.returns],
            size(federation.model.start(federation.seed)),
            {
                "fit": trained + played.seconds["fit"],
                "merge": played.seconds["merge"],
                "adopt": took,
            },
            {
                reading: [
                    roc_auc(logits(adoption)[graph.test], graph.y[graph.test])
                    for adoption, graph in pairs
                ]
                for reading, logits in READINGS.items()
            }
            if classes == 2
            else {},
        )


def _seals(clients: int, federation: Federation) -> Sequence[Seal | None]:
    """Each client's masks, from keys that are drawn here and forgotten."""
    if not federation.sealed:
        return [None] * clients
    return sealing.ephemeral([f"{client:06}" for client in range(clients)], federation.digest)


def evaluate(logits: Tensor, graph: Graph, classes: int) -> Tensor:
    """The confusion of predictions on the client's test nodes."""
    return confusion(logits.argmax(1)[graph.test], graph.y[graph.test], classes)
