"""Small client graphs for the tests, made by the embedded generator."""

import torch
from torch import Tensor

from pace.datasets.dataset import Dataset
from pace.datasets.partition import Random, client_graphs
from pace.datasets.synthetic import Synthetic, synthetic
from pace.graph import Graph
from pace.models.networks import GCN
from pace.protocol.federation import Federation
from pace.protocol.method import Method

FEATURES, CLASSES = 40, 4


def clients(count: int = 3, nodes: int = 90, seed: int = 0) -> list[Graph]:
    """`count` client graphs cut from one synthetic graph, with masks."""
    settings = Synthetic(
        nodes=count * nodes,
        classes=CLASSES,
        features=FEATURES,
        communities=2 * count,
        words=6,
        seed=seed,
    )
    whole = synthetic(settings)
    parts = [list(range(client * nodes, (client + 1) * nodes)) for client in range(count)]
    return client_graphs(Dataset("whole", whole, CLASSES), parts, Random(seed))


def federation(method: Method, *, epochs: int = 5, hidden: int = 16, seed: int = 7) -> Federation:
    """A small federation over `clients()`."""
    return Federation(GCN((FEATURES, hidden, CLASSES)), method, seed, epochs)


def none(nodes: int) -> Tensor:
    """An empty mask."""
    return torch.zeros(nodes, dtype=torch.bool)
