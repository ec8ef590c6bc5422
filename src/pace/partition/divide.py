"""A dataset divided among clients: a partition by name, then the masks, from one stream."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

import numpy as np

from pace.data.dataset import Dataset
from pace.errors import SettingError
from pace.graph import Graph
from pace.partition.louvain import louvain
from pace.partition.split import DATA_SEED, client_graphs, generator


def divide(
    dataset: Dataset, partition: str, clients: int, data_seed: int = DATA_SEED
) -> list[Graph]:
    """The client graphs. Partition and masks draw from one stream, so they depend on the seed alone."""
    if partition not in PARTITIONS:
        close = get_close_matches(partition, PARTITIONS, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise SettingError(
            f"partition {partition!r} is unknown: {hint}known are {', '.join(PARTITIONS)}"
        )
    if not 1 <= clients <= dataset.graph.nodes:
        raise SettingError(
            f"clients is {clients}, expected 1 to {dataset.graph.nodes}, the number of nodes"
        )
    random = generator(data_seed)
    held = PARTITIONS[partition](dataset, clients, random)
    if empty := [client for client, nodes in enumerate(held) if not nodes]:
        raise SettingError(
            f"{partition} left clients {empty} without nodes: ask for fewer than {clients} clients"
        )
    return client_graphs(dataset.graph, held, dataset.classes, random, dataset.ratios)


def _louvain(dataset: Dataset, clients: int, random: np.random.RandomState) -> list[list[int]]:
    return louvain(dataset.graph.edges, dataset.graph.nodes, clients)


PARTITIONS: dict[str, Callable[[Dataset, int, np.random.RandomState], list[list[int]]]] = {
    "louvain": _louvain,
}
