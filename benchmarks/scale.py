"""One client as it grows: seconds and memory, each size in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

import torch

from benchmarks.clock import by_itself, peak

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
DEGREE, FEATURES, CLASSES, EPOCHS = 28, 128, 40, 10  # a million nodes have ten million edges


def sweep(sizes: tuple[int, ...] = SIZES) -> Iterator[dict[str, float]]:
    return (by_itself("benchmarks.scale", nodes) for nodes in sizes)


def one(nodes: int) -> dict[str, float]:
    """Make a client of that size, train it for a few epochs, evaluate it."""
    from pace.datasets import Synthetic, synthetic
    from pace.graph import Graph
    from pace.models import GCN
    from pace.training import Recipe, train

    torch.set_num_threads(1)
    clock = [time.perf_counter()]
    settings = Synthetic(
        nodes=nodes,
        degree=DEGREE,
        features=FEATURES,
        classes=CLASSES,
        communities=max(1, nodes // 500),
    )
    plain = synthetic(settings)
    chosen = torch.rand(nodes, generator=torch.Generator().manual_seed(0)) < 0.2
    masks = (chosen, ~chosen, torch.zeros_like(chosen))
    graph = Graph(plain.x, plain.edges, plain.y, *masks)
    made = peak()
    clock.append(time.perf_counter())
    gcn = GCN((FEATURES, 64, CLASSES))
    local = train(graph, gcn, gcn.start(0), recipe=Recipe(epochs=EPOCHS), seed=0)
    clock.append(time.perf_counter())
    with torch.no_grad():
        gcn(local, graph)
    clock.append(time.perf_counter())
    return {
        "nodes": nodes,
        "edges": graph.edges.shape[1] // 2,
        "epochs": EPOCHS,
        "make_seconds": clock[1] - clock[0],
        "train_seconds": clock[2] - clock[1],
        "evaluate_seconds": clock[3] - clock[2],
        "made_mb": made,
        "peak_mb": peak(),
    }


if __name__ == "__main__":
    print(json.dumps(one(int(sys.argv[1]))))
