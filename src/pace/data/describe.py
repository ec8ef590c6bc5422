"""A dataset in numbers, as plain data."""

from __future__ import annotations

from typing import Any

import torch

from pace.data.dataset import Dataset
from pace.models.operator import density


def describe(dataset: Dataset) -> dict[str, Any]:
    """Sizes, classes, masks and clients. Edges are counted once, whatever their direction."""
    graph, names = dataset.graph, dataset.names
    source, target = graph.edges
    known = (graph.y[source] >= 0) & (graph.y[target] >= 0)
    alike = int((graph.y[source] == graph.y[target])[known].sum())
    counts = torch.bincount(graph.y[graph.y >= 0], minlength=dataset.classes).tolist()
    classes = names.classes or [str(label) for label in range(dataset.classes)]
    degree = torch.bincount(source, minlength=graph.nodes)
    return {
        "name": dataset.name,
        "nodes": graph.nodes,
        "edges": graph.edges.shape[1] // (1 if graph.directed else 2),
        "directed": graph.directed or dataset.directed is not None,
        "weighted": graph.weights is not None,
        "isolated": int((degree == 0).sum()),
        "mean_degree": graph.edges.shape[1] / graph.nodes,
        "homophily": alike / max(1, int(known.sum())),  # share of edges within a class
        "features": graph.features,
        "feature_names": list(names.features),
        "feature_density": density(graph.x),
        "classes": dict(zip(classes, counts, strict=True)),
        "unlabelled": int((graph.y < 0).sum()),
        "split": {name: int(getattr(graph, name).sum()) for name in ("train", "val", "test")}
        if dataset.has_split
        else None,
        "clients": None
        if dataset.owner is None
        else dict(zip(names.clients, torch.bincount(dataset.owner).tolist(), strict=True)),
    }
