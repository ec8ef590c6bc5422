"""What a division did to a graph, client by client."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pace.datasets.dataset import Dataset
from pace.datasets.partition.divide import Division


@dataclass(frozen=True)
class Client:
    """One client in numbers. Edges are counted once, whatever their direction."""

    name: str
    nodes: int
    edges: int  # kept
    lost: int  # edges of its nodes that lead to other clients
    labels: list[int]  # nodes of each class
    unlabelled: int
    train: int
    val: int
    test: int


def describe(dataset: Dataset, division: Division) -> list[Client]:
    """Each client in turn."""
    degree = torch.bincount(dataset.graph.edges[0], minlength=dataset.graph.nodes)
    names = dataset.names.clients if len(dataset.names.clients) == len(division) else None
    return [
        Client(
            names[client] if names else str(client),
            graph.nodes,
            graph.edges.shape[1] // 2,
            int(degree[torch.as_tensor(nodes)].sum()) - graph.edges.shape[1],
            torch.bincount(graph.y[graph.y >= 0], minlength=dataset.classes).tolist(),
            int((graph.y < 0).sum()),
            *(int(mask.sum()) for mask in (graph.train, graph.val, graph.test)),
        )
        for client, (nodes, graph) in enumerate(zip(division.nodes, division, strict=True))
    ]
