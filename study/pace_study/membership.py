"""How well an upload tells who was trained on: a number a method, on the graph that comes with PACE."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import torch

from pace.datasets import divide, load
from pace.errors import PaceError
from pace.graph import Graph
from pace.io import atomic
from pace.models import Model, sized
from pace.protocol import SEED, Federation, Messages, Reading, layouts, steps, wire
from pace.runtimes.files import attacks
from pace.training import train_cohort
from pace_study.cell import HIDDEN, LAYERS
from pace_study.controls import study_method
from pace_study.folder import read_json
from pace_study.rounds import Played
from pace_study.study import FRESH_DRAWS

FILE = "membership.json"


def read_membership(folder: Path) -> dict[str, float]:
    """What a folder holds: by method, the AUC."""
    return read_json(folder / FILE) or {}


def add_membership(folder: Path, methods: Iterable[str]) -> Mapping[str, float]:
    """The folder's numbers, with those of methods that it had none of."""
    aucs = read_membership(folder)
    for name in methods:
        if name not in aucs:
            with suppress(PaceError):  # it cannot be run on this graph
                aucs[name] = round(membership(name), 3)
    text = json.dumps(dict(sorted(aucs.items())), indent=1)
    atomic.write(folder / FILE, f"{text}\n".encode())
    return aucs


def membership(name: str) -> float:
    """AUC of the best of the site's own attacks on a method's upload, the mean over clients.

    Of a method over rounds the model that the server holds last is attacked, or what clients send whole.
    0.5 is guessing, which is what a method that sends nothing leaves.
    """
    torch.set_num_threads(1)
    graphs, model = _setting()
    method = study_method(name, graphs=graphs)
    federation = Federation(model, method, SEED)
    if isinstance(method, Played):
        outcome, _ = method.played(federation)
        final = [models[0] for models in next(iter(outcome.models.values()))]
        readings = [Reading(model) for model in outcome.sent or final]
    else:
        starts = {federation.seed: federation.start}
        models = train_cohort(graphs, federation.network, starts, recipe=federation.recipe)
        sent = [
            Messages([wire.decode(steps.share(local, graph, federation)[1]).message])
            for local, graph in zip(models[federation.seed], graphs, strict=True)
        ]
        readings = [layouts.explain_uploads(upload, federation).reading() for upload in sent]
    aucs = []
    for reading, graph in zip(readings, graphs, strict=True):
        nodes = (mask.nonzero().flatten() for mask in (graph.train, graph.test))
        by_attack = attacks.membership(reading, graph, federation, *nodes)
        aucs.append(max(by_attack.values(), default=0.5))
    return float(np.mean(aucs))


@cache
def _setting() -> tuple[list[Graph], Model]:
    dataset = load("synthetic")
    graphs = divide(dataset, "louvain", 10, FRESH_DRAWS[0])
    return graphs, sized("gcn", dataset.graph.features, HIDDEN, LAYERS, dataset.classes)
