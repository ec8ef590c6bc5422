"""One client as it grows: seconds and memory of a site's whole `pace.fit` by each method.

`python -m benchmarks.scale 1000000 pace pace-ridge` fits by one after the other: seconds of the CPU,
against the first one's, and the peak so far. Each size is a process of its own.
"""

from collections.abc import Iterator
from dataclasses import replace

import pace
from benchmarks import clock
from pace.datasets import load, with_drawn_masks

GRAPH = "synthetic:features=128,classes=40,degree=28"  # a million nodes have ten million edges


def main(nodes: int, methods: list[str], epochs: int = 10) -> Iterator[clock.Point]:
    """Print a JSON object for each method."""
    dataset = load(f"{GRAPH},nodes={nodes},communities={max(1, nodes // 500)}")
    graph, first = with_drawn_masks(dataset, dataset.classes), 0.0
    sizes = {"nodes": nodes, "edges": graph.edges.shape[1] // 2, "made_mb": clock.peak()}
    for method in methods:
        agreed = pace.agree([graph], method, epochs=epochs)
        fresh = replace(graph)  # without what another method had computed of it
        _, taken = clock.cost(pace.fit, fresh, agreed)
        first = first or taken["cpu_seconds"]
        yield {"method": method, **sizes, **taken, "ratio": taken["cpu_seconds"] / first}


if __name__ == "__main__":
    clock.command(main)
