"""One client as it grows: seconds and memory of a site's whole `pace.fit` by each method.

`python -m benchmarks.scale 1000000 pace pace-ridge` fits by one after the other: seconds of the CPU,
against the first one's, and the peak so far. Each size is a process of its own.
"""

import json
from dataclasses import replace
from functools import partial

import torch
import typer

import pace
from benchmarks.clock import cost, peak
from pace.datasets import Synthetic, synthetic
from pace.graph import Graph

DEGREE, FEATURES, CLASSES, EPOCHS = 28, 128, 40, 10  # a million nodes have ten million edges


def made_graph(nodes: int) -> Graph:
    """Masks as the paper draws them: of five nodes one to train on, two to validate on, two to test."""
    plain = synthetic(Synthetic(nodes, CLASSES, FEATURES, max(1, nodes // 500), DEGREE))
    drawn = torch.randint(5, (nodes,), generator=torch.Generator().manual_seed(0))
    masks = (drawn == 0, (drawn == 1) | (drawn == 2), drawn > 2)
    return Graph(plain.x, plain.edges, plain.y, *masks)


def main(nodes: int, methods: list[str], epochs: int = EPOCHS) -> None:
    """Print a JSON object for each method."""
    torch.set_num_threads(1)
    graph, first = made_graph(nodes), 0.0
    sizes = {"nodes": nodes, "edges": graph.edges.shape[1] // 2, "made_mb": peak()}
    for method in methods:
        agreed = pace.agree([graph], method, epochs=epochs)
        fresh = replace(graph)  # without what another method had computed of it
        _, taken = cost(partial(pace.fit, fresh, agreed))
        first = first or taken["cpu_seconds"]
        ratio = taken["cpu_seconds"] / first
        print(json.dumps({"method": method, **sizes, **taken, "ratio": ratio}), flush=True)


if __name__ == "__main__":
    typer.run(main)
