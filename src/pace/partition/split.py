"""Train, validation and test masks, drawn by client and class."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pace.graph import Graph

RATIOS = (0.2, 0.4, 0.4)
DATA_SEED = 2024


def generator(seed: int = DATA_SEED) -> np.random.RandomState:
    """The stream of a data seed: the legacy generator, since the reference masks come from it."""
    return np.random.RandomState(seed)


def split(
    labels: Sequence[int], classes: int, random: np.random.RandomState, ratios: Sequence[float]
) -> tuple[list[int], list[int], list[int]]:
    """Local indices of train, validation and test, each ascending.

    For each class: shuffle its indices, then cut at floor(a n) and floor((a + b) n). Nodes without a
    label (UNKNOWN) are in no mask.
    """
    values = np.asarray(labels)
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for label in range(classes):
        members = np.flatnonzero(values == label).tolist()
        random.shuffle(members)
        first = math.floor(ratios[0] * len(members))
        second = math.floor((ratios[0] + ratios[1]) * len(members))
        parts[0].extend(members[:first])
        parts[1].extend(members[first:second])
        parts[2].extend(members[second:])
    train, val, test = (sorted(part) for part in parts)
    return train, val, test


def client_graphs(
    graph: Graph,
    clients: Sequence[Sequence[int]],
    classes: int,
    random: np.random.RandomState,
    ratios: Sequence[float] = RATIOS,
) -> list[Graph]:
    """Each client's induced graph with freshly drawn masks, in client order from one stream."""
    made = []
    for nodes in clients:
        part = graph.induced(torch.tensor(nodes, dtype=torch.int64))
        indices = split(part.y.tolist(), classes, random, ratios)
        train, val, test = (_mask(index, part.nodes) for index in indices)
        made.append(Graph(part.x, part.edges, part.y, train, val, test))
    return made


def _mask(index: Sequence[int], nodes: int) -> Tensor:
    mask = torch.zeros(nodes, dtype=torch.bool)
    mask[list(index)] = True
    return mask
