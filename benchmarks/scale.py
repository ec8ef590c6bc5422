"""One client as it grows: seconds and memory, each size in a process of its own.

`python -m benchmarks.scale 1000000 pace pace-ridge` is a site's whole `pace.fit` by these methods, one
after the other: seconds of the CPU, or by the clock on a GPU.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch

import pace
from benchmarks.clock import by_itself, peak, spent, timed
from pace.datasets import Synthetic, synthetic
from pace.graph import Graph
from pace.models import GCN
from pace.training import Recipe, train

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
DEGREE, FEATURES, CLASSES, EPOCHS = 28, 128, 40, 10  # a million nodes have ten million edges


def sweep(sizes: tuple[int, ...] = SIZES) -> Iterator[dict[str, float]]:
    return (by_itself("benchmarks.scale", nodes) for nodes in sizes)


def made_graph(nodes: int, degree: float = DEGREE) -> Graph:
    """Masks as the paper draws them: of five nodes one to train on, two to validate on, two to test."""
    plain = synthetic(
        Synthetic(
            nodes=nodes,
            degree=degree,
            features=FEATURES,
            classes=CLASSES,
            communities=max(1, nodes // 500),
        )
    )
    drawn = torch.randint(5, (nodes,), generator=torch.Generator().manual_seed(0))
    masks = (drawn == 0, (drawn == 1) | (drawn == 2), drawn > 2)
    return Graph(plain.x, plain.edges, plain.y, *masks)


def one(nodes: int) -> dict[str, float]:
    """Make a client of that size, train it for a few epochs, evaluate it."""
    clock = [time.perf_counter()]
    graph = made_graph(nodes)
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


def fits(nodes: int, methods: list[str], given: argparse.Namespace) -> dict[str, object]:
    """A site's first step by each method: seconds, against the first one's, and the peak so far."""
    graph = made_graph(nodes, given.degree)
    found: dict[str, object] = {"nodes": nodes, "edges": graph.edges.shape[1] // 2}
    first = 0.0
    for method in methods:
        agreed = pace.agree([graph], method, epochs=given.epochs)
        fresh = replace(graph)  # without what another method had computed of it
        measure = spent if given.device == "cpu" else timed
        took = measure(partial(pace.fit, fresh, agreed, device=given.device))
        first = first or took
        found[method] = {"seconds": took, "ratio": took / first, "peak_mb": peak()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int)
    parser.add_argument("methods", nargs="*")
    parser.add_argument("--degree", type=float, default=DEGREE)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    nodes, methods = given.nodes, given.methods
    print(json.dumps(fits(nodes, methods, given) if methods else one(nodes)))


if __name__ == "__main__":
    main()
