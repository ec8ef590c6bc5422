"""Runtime 1: every party in this process, every message through bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pace import protocol
from pace.calibration import blend
from pace.federation import Federation, Method, describe
from pace.gcn import GCN
from pace.graph import Graph
from pace.metrics import confusion
from pace.params import Params, size
from pace.training import train

READINGS = {"local": 0.0, "native": 1.0, "adopted": None}  # the alpha of each; None: the receiver's


@dataclass(frozen=True, eq=False)
class Trial:
    """One method on one seed: all that is kept of it. Every score is computed from these."""

    method: str
    seed: int
    alphas: list[float]  # one for each client
    confusions: dict[str, list[Tensor]]  # reading -> one for each client, on its test nodes
    upload: list[int]  # bytes
    returned: list[int]  # bytes
    dense: int  # bytes of the shared model sent whole
    seconds: dict[str, float]  # fit, merge, adopt


def simulate(
    graphs: Sequence[Graph],
    gcn: GCN,
    methods: Mapping[str, Method],
    seeds: Sequence[int],
    *,
    epochs: int | None = None,
    device: torch.device | str = "cpu",
    progress: Callable[[str], None] = lambda step: None,
) -> Iterator[Trial]:
    """Run every method on every seed; `progress` is told of each of the `steps(...)` finished."""
    for seed in seeds:
        federations = {
            name: Federation(gcn, method, seed, epochs) for name, method in methods.items()
        }
        for members in by_training(federations).values():
            shared = federations[members[0]]
            began = time.perf_counter()
            locals_ = []
            for graph in graphs:
                locals_.append(_trained(graph, shared, device))
                progress(f"seed {seed}: training for {', '.join(members)}")
            trained = time.perf_counter() - began
            for name in members:
                yield _trial(name, federations[name], graphs, locals_, trained)
                progress(f"seed {seed}: {name} done")


def steps(clients: int, gcn: GCN, methods: Mapping[str, Method], seeds: Sequence[int]) -> int:
    """How often `simulate` reports progress."""
    groups = by_training({name: Federation(gcn, method) for name, method in methods.items()})
    return len(seeds) * (clients * len(groups) + len(methods))


def by_training(federations: Mapping[str, Federation]) -> dict[str, list[str]]:
    """Method names by how their clients train: equal recipe and network, one training."""
    groups: dict[str, list[str]] = {}
    for name, federation in federations.items():
        key = repr(describe((federation.recipe, federation.model)))
        groups.setdefault(key, []).append(name)
    return groups


def _trained(graph: Graph, federation: Federation, device: torch.device | str) -> Params:
    protocol.check(graph, federation)
    local = train(
        graph.to(device),
        federation.model,
        federation.start,
        recipe=federation.recipe,
        seed=federation.seed,
    )
    return {name: value.cpu() for name, value in local.items()}


def _trial(
    name: str,
    federation: Federation,
    graphs: Sequence[Graph],
    locals_: Sequence[Params],
    trained: float,
) -> Trial:
    clock = [time.perf_counter()]
    fitted = [
        protocol.share(local, graph, federation)
        for local, graph in zip(locals_, graphs, strict=True)
    ]
    clock.append(time.perf_counter())
    uploads = [upload for _, upload in fitted]
    returns = protocol.merge(uploads, federation)
    clock.append(time.perf_counter())
    adoptions = [
        protocol.adopt(graph, kept, returned, federation)
        for graph, (kept, _), returned in zip(graphs, fitted, returns, strict=True)
    ]
    clock.append(time.perf_counter())
    classes = federation.gcn.classes
    confusions = {
        reading: [
            evaluate(adoption, graph, classes, alpha)
            for adoption, graph in zip(adoptions, graphs, strict=True)
        ]
        for reading, alpha in READINGS.items()
    }
    return Trial(
        name,
        federation.seed,
        [adoption.alpha for adoption in adoptions],
        confusions,
        [len(upload) for upload in uploads],
        [len(returned) for returned in returns],
        size(federation.gcn.start(federation.seed)),
        {
            "fit": trained + clock[1] - clock[0],
            "merge": clock[2] - clock[1],
            "adopt": clock[3] - clock[2],
        },
    )


def evaluate(
    adoption: protocol.Adoption, graph: Graph, classes: int, alpha: float | None
) -> Tensor:
    """The confusion of a reading on the client's test nodes."""
    chosen = adoption.alpha if alpha is None else alpha
    predicted = blend(adoption.local, adoption.external, chosen).argmax(1)
    return confusion(predicted[graph.test], graph.y[graph.test], classes)
