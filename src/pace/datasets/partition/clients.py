"""The clients of a division: in numbers, and as graph files as if each had imported its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from unicodedata import category, normalize

import torch

from pace.datasets import file
from pace.datasets.dataset import Dataset, Names
from pace.datasets.partition.divide import Division

LONGEST = 160  # bytes, of at most 255 that a file's name has


@dataclass(frozen=True)
class ClientFacts:
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


def describe_clients(dataset: Dataset, division: Division) -> list[ClientFacts]:
    """Each client in turn."""
    degree = torch.bincount(dataset.graph.edges[0], minlength=dataset.graph.nodes)
    names = dataset.names.clients if len(dataset.names.clients) == len(division) else None
    return [
        ClientFacts(
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


def file_names(names: Sequence[str]) -> list[str]:
    """Names of files, different on every disk, that resemble these names."""
    made: dict[str, str] = {}  # as a disk may compare them -> as they are written
    for number, name in enumerate(names):
        letters = (letter if _usual(letter) else "_" for letter in name)
        stem = "".join(letters).encode()[:LONGEST].decode(errors="ignore").strip(" .") or "client"
        while plain(stem) in made:
            stem = f"{stem}-{number}"
        made[plain(stem)] = stem
    return list(made.values())


def plain(name: str) -> str:
    """What a disk may not tell apart is the same."""
    return normalize("NFKC", name).casefold()


def _usual(letter: str) -> bool:
    return letter in " ._-" or category(letter)[0] in "LMN"


def write_graphs(folder: Path, dataset: Dataset, division: Division) -> list[Path]:
    """Write `NAME.graph` for each client, with its masks and the dataset's names.

    A client without a name of its own is `client-0`, `client-1`, … A name comes from the dataset's
    file: what could leave the folder, or be no file's name, is replaced by underscores.
    """
    names = dataset.names.clients
    if len(names) != len(division):
        names = tuple(f"client-{client}" for client in range(len(division)))
    nodes, paths = dataset.names.nodes, []
    rows = zip(names, file_names(names), division.nodes, division, strict=True)
    for name, stem, held, graph in rows:
        mine = tuple(nodes[int(node)] for node in held) if nodes else ()
        known = Names(dataset.names.classes, dataset.names.features, (), mine)
        paths.append(folder / f"{stem}{file.SUFFIX}")
        file.write_graph(paths[-1], Dataset(name, graph, dataset.classes, names=known))
    return paths
