"""One client as it grows: seconds and memory of its fit, each size in a process of its own.

`python -m benchmarks.scale 1000000 pace pace-ridge` is a site's whole `pace.fit` by these methods, one
after the other: seconds of the CPU, against the first one's.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
import typer

import pace
from benchmarks.clock import child, peak, spent
from pace.datasets import Synthetic, synthetic
from pace.graph import Graph

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
DEGREE, FEATURES, CLASSES, EPOCHS = 28, 128, 40, 10  # a million nodes have ten million edges


def sweep(sizes: Sequence[int] = SIZES) -> Iterator[dict[str, float]]:
    return (json.loads(child("-m", "benchmarks.scale", nodes, "pace")[1]) for nodes in sizes)


def made_graph(nodes: int) -> Graph:
    """Masks as the paper draws them: of five nodes one to train on, two to validate on, two to test."""
    plain = synthetic(Synthetic(nodes, CLASSES, FEATURES, max(1, nodes // 500), DEGREE))
    drawn = torch.randint(5, (nodes,), generator=torch.Generator().manual_seed(0))
    masks = (drawn == 0, (drawn == 1) | (drawn == 2), drawn > 2)
    return Graph(plain.x, plain.edges, plain.y, *masks)


def main(nodes: int, methods: list[str], epochs: int = EPOCHS) -> None:
    """A site's first step by each method: seconds, against the first one's, and the peak so far."""
    torch.set_num_threads(1)
    graph, first = made_graph(nodes), 0.0
    sizes = {"nodes": nodes, "edges": graph.edges.shape[1] // 2, "made_mb": peak()}
    for method in methods:
        agreed = pace.agree([graph], method, epochs=epochs)
        fresh = replace(graph)  # without what another method had computed of it
        took = spent(partial(pace.fit, fresh, agreed))
        first = first or took
        point = {**sizes, "seconds": took, "ratio": took / first, "peak_mb": peak()}
        print(json.dumps({"method": method, **point}), flush=True)


if __name__ == "__main__":
    typer.run(main)
