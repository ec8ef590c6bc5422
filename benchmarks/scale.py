"""One client as it grows: seconds and memory of its fit, each size in a process of its own.

`python -m benchmarks.scale 1000000 pace pace-ridge` is a site's whole `pace.fit` by these methods, one
after the other: seconds of the CPU, against the first one's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch

import pace
from benchmarks.clock import Point, child, peak, spent
from pace.datasets import Synthetic, synthetic
from pace.graph import Graph

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
DEGREE, FEATURES, CLASSES, EPOCHS = 28, 128, 40, 10  # a million nodes have ten million edges


def sweep(sizes: tuple[int, ...] = SIZES) -> Iterator[dict[str, float]]:
    return (json.loads(child("-m", "benchmarks.scale", nodes, "pace")[1]) for nodes in sizes)


def made_graph(nodes: int) -> Graph:
    """Masks as the paper draws them: of five nodes one to train on, two to validate on, two to test."""
    plain = synthetic(Synthetic(nodes, CLASSES, FEATURES, max(1, nodes // 500), DEGREE))
    drawn = torch.randint(5, (nodes,), generator=torch.Generator().manual_seed(0))
    masks = (drawn == 0, (drawn == 1) | (drawn == 2), drawn > 2)
    return Graph(plain.x, plain.edges, plain.y, *masks)


def fits(graph: Graph, methods: Sequence[str], epochs: int) -> Iterator[Point]:
    """A site's first step by each method: seconds, against the first one's, and the peak so far."""
    first, made = 0.0, peak()
    for method in methods:
        agreed = pace.agree([graph], method, epochs=epochs)
        fresh = replace(graph)  # without what another method had computed of it
        took = spent(partial(pace.fit, fresh, agreed))
        first = first or took
        sizes = {"nodes": graph.nodes, "edges": graph.edges.shape[1] // 2, "made_mb": made}
        yield {"method": method, **sizes, "seconds": took, "ratio": took / first, "peak_mb": peak()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int)
    parser.add_argument("methods", nargs="+")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for point in fits(made_graph(given.nodes), given.methods, given.epochs):
        print(json.dumps(point), flush=True)


if __name__ == "__main__":
    main()
