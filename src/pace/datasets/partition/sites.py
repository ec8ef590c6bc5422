"""A division as the graph files of its clients, as if each had imported its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from unicodedata import category, normalize

from pace.datasets import file
from pace.datasets.dataset import Dataset, Names
from pace.datasets.partition.divide import Division

LONGEST = 160  # bytes, of at most 255 that a file's name has


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
        file.write(paths[-1], Dataset(name, graph, dataset.classes, names=known))
    return paths
