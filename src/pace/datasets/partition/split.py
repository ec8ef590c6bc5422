"""Client graphs and their masks: induced subgraphs, and train, validation and test by class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pace.datasets.dataset import RATIOS
from pace.graph import MASKS, Graph

DATA_SEED = 2024

Array = np.ndarray[Any, np.dtype[np.int64]]
Nodes = Sequence[int] | Array  # of one client, in the order that numbers them locally


def generator(seed: int = DATA_SEED) -> np.random.RandomState:
    """The stream of a data seed: the legacy generator, since the reference masks come from it."""
    return np.random.RandomState(seed)


def client_graphs(
    graph: Graph,
    clients: Sequence[Nodes],
    classes: int,
    random: np.random.RandomState,
    ratios: Sequence[float] = RATIOS,
) -> list[Graph]:
    """Each client's induced graph with freshly drawn masks, in client order from one stream."""
    return [
        with_masks(part, split(part.y.numpy(), classes, random, ratios))
        for part in induced(graph, clients)
    ]


def split(
    labels: Array, classes: int, random: np.random.RandomState, ratios: Sequence[float]
) -> tuple[Array, Array, Array]:
    """Local indices of train, validation and test.

    For each class: shuffle its indices, then cut at floor(a n) and floor((a + b) n). Nodes without a
    label (UNKNOWN) are in no mask.
    """
    parts: list[list[Array]] = []
    for label in range(classes):
        members = np.flatnonzero(labels == label).tolist()
        random.shuffle(members)
        first = math.floor(ratios[0] * len(members))
        second = math.floor((ratios[0] + ratios[1]) * len(members))
        parts.append(np.split(np.asarray(members, dtype=np.int64), [first, second]))
    train, val, test = (np.concatenate(part) for part in zip(*parts, strict=True))
    return train, val, test


def with_masks(graph: Graph, indices: Sequence[Nodes]) -> Graph:
    """The graph with these nodes in train, validation and test."""
    masks = torch.zeros((3, graph.nodes), dtype=torch.bool)
    for mask, index in zip(masks, indices, strict=True):
        mask[torch.as_tensor(index, dtype=torch.int64)] = True
    return replace(graph, **dict(zip(MASKS, masks, strict=True)))


def induced(graph: Graph, clients: Sequence[Nodes]) -> list[Graph]:
    """The subgraph of every client, masks included; edges between clients vanish.

    One pass over the edges for all clients together: nodes are renumbered so that each client's are
    consecutive, edges sorted once by their new ends and cut where the next client begins.
    """
    lists = [torch.as_tensor(nodes, dtype=torch.int64) for nodes in clients]
    order = torch.cat(lists)
    sizes = torch.tensor([len(nodes) for nodes in lists])
    place = torch.full((graph.nodes,), -1, dtype=torch.int64)
    place[order] = torch.arange(len(order))
    owner = torch.full((graph.nodes,), -1, dtype=torch.int64)
    owner[order] = torch.repeat_interleave(torch.arange(len(lists)), sizes)
    ends = owner[graph.edges]
    kept = (ends[0] == ends[1]) & (ends[0] >= 0)
    inside = place[graph.edges[:, kept]]
    keys, sorted_by = torch.sort(inside[0] * max(1, len(order)) + inside[1])
    sources, targets = keys // max(1, len(order)), keys % max(1, len(order))
    starts = sizes.cumsum(0) - sizes
    counts = torch.bincount(owner[order[sources]], minlength=len(lists)).tolist()
    pairs = torch.split(torch.stack([sources, targets]), counts, dim=1)
    weights: Sequence[Tensor | None] = [None] * len(lists)
    if graph.weights is not None:
        weights = torch.split(graph.weights[kept][sorted_by], counts)
    return [
        Graph(
            graph.x[nodes],
            edges - start,
            graph.y[nodes],
            *(mask[nodes] for mask in (graph.train, graph.val, graph.test)),
            weights=weight,
            directed=graph.directed,
        )
        for nodes, edges, start, weight in zip(lists, pairs, starts, weights, strict=True)
    ]
