"""A dataset divided among clients: a partition by name, then the masks, from one stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pace.datasets.dataset import Dataset
from pace.datasets.partition.dirichlet import dirichlet
from pace.datasets.partition.louvain import louvain
from pace.datasets.partition.metis import metis
from pace.datasets.partition.split import DATA_SEED, Nodes, client_graphs, generator, induced
from pace.errors import GraphError, SettingError, did_you_mean
from pace.graph import Graph


@dataclass(frozen=True, eq=False)
class Division:
    """Who holds which nodes, and the client graphs made of them."""

    nodes: list[Nodes]  # global numbers, in the order that numbers them locally
    graphs: list[Graph]


def divide(
    dataset: Dataset, partition: str, clients: int, data_seed: int = DATA_SEED
) -> list[Graph]:
    """The client graphs. Under `column` the dataset's own column says how many there are."""
    return division(dataset, partition, clients, data_seed).graphs


def division(
    dataset: Dataset, partition: str, clients: int, data_seed: int = DATA_SEED
) -> Division:
    """Partition and masks draw from one stream, so they depend on the seed alone.

    A graph that came with its own masks keeps them.
    """
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"the dataset is a {type(dataset).__module__}.{type(dataset).__name__}, expected a "
            "pace.datasets.Dataset: make one with Dataset(name, Graph.from_pyg(data), classes)"
        )
    if partition not in PARTITIONS:
        hint = did_you_mean(partition, PARTITIONS)
        raise SettingError(
            f"partition {partition!r} is unknown: {hint}known are {', '.join(PARTITIONS)}"
        )
    if partition != "column" and not 1 <= clients <= dataset.graph.nodes:
        raise SettingError(
            f"clients is {clients}, expected 1 to {dataset.graph.nodes}, the number of nodes"
        )
    if not 0 <= data_seed < 2**32:
        raise SettingError(f"the data seed is {data_seed}, expected 0 to {2**32 - 1}")
    if not dataset.classes:
        raise GraphError(
            f"{dataset.name} has no labels: a model can predict such a graph, but not learn from it; "
            "import it with --label COLUMN"
        )
    random = generator(data_seed)
    held = list(PARTITIONS[partition](dataset, clients, random))
    if empty := [client for client, nodes in enumerate(held) if not len(nodes)]:
        raise SettingError(
            f"{partition} left clients {empty} without nodes: ask for fewer than {clients} clients"
        )
    if dataset.has_split:
        return Division(held, induced(dataset.graph, held))
    return Division(
        held, client_graphs(dataset.graph, held, dataset.classes, random, dataset.ratios)
    )


def _louvain(dataset: Dataset, clients: int, random: np.random.RandomState) -> Sequence[Nodes]:
    return louvain(dataset.stored, dataset.graph.nodes, clients)


def _metis(dataset: Dataset, clients: int, random: np.random.RandomState) -> Sequence[Nodes]:
    return metis(dataset.graph.edges, dataset.graph.nodes, clients)


def _dirichlet(dataset: Dataset, clients: int, random: np.random.RandomState) -> Sequence[Nodes]:
    return dirichlet(dataset.graph.y, dataset.classes, clients, random)


def _column(dataset: Dataset, clients: int, random: np.random.RandomState) -> Sequence[Nodes]:
    """The user's own assignment, each client's nodes in the order of the table."""
    if dataset.owner is None:
        raise SettingError(
            f"the partition column needs to know each node's client, which {dataset.name} does "
            "not say: import your graph with --client COLUMN"
        )
    owner = dataset.owner.numpy()
    return [np.flatnonzero(owner == client) for client in range(int(owner.max()) + 1)]


PARTITIONS: dict[str, Callable[[Dataset, int, np.random.RandomState], Sequence[Nodes]]] = {
    "louvain": _louvain,
    "metis": _metis,
    "dirichlet": _dirichlet,
    "column": _column,
}
