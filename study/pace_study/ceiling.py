"""What one site with everybody's nodes and all edges would reach, on the same masks: the ceiling."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import one_hot

from pace.datasets.dataset import Dataset
from pace.datasets.partition.divide import Division
from pace.gates.mixture import mix, weigh
from pace.graph import Graph
from pace.merging.ridge import solve_rows
from pace.methods.beyond.ridge import HOPS, SCALE, STRENGTHS
from pace.models.base import Model
from pace.models.unit_rows import unit_rows
from pace.training.recipe import Recipe
from pace.training.train import train
from pace_study.rounds import accuracy


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
