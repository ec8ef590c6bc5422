"""A division as the graph files of its clients, as if each had imported its own."""

from __future__ import annotations

from pathlib import Path

from pace.data import file
from pace.data.dataset import Dataset, Names
from pace.partition.divide import Division


def write_graphs(folder: Path, dataset: Dataset, division: Division) -> list[Path]:
    """Write `NAME.graph` for each client, with its masks and the dataset's names.

    A client without a name of its own is `client-0`, `client-1`, …
    """
    names = dataset.names.clients
    if len(names) != len(division.graphs):
        names = tuple(f"client-{client}" for client in range(len(division.graphs)))
    nodes, paths = dataset.names.nodes, []
    for name, held, graph in zip(names, division.nodes, division.graphs, strict=True):
        mine = tuple(nodes[int(node)] for node in held) if nodes else ()
        known = Names(dataset.names.classes, dataset.names.features, (), mine)
        paths.append(folder / f"{name}.graph")
        file.write(paths[-1], Dataset(name, graph, dataset.classes, names=known))
    return paths
