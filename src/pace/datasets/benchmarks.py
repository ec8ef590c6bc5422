"""The public benchmarks, each in the layout of its publisher: features as read, no transform.

Raw files are read once and kept in the cache as a .graph file, whose name tells which raw files it
was made of; the folder they lie in is never written to, except to put a download there.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from torch import Tensor

from pace.datasets import file, heterophilous, ogb, twitch
from pace.datasets.dataset import Dataset, Names
from pace.datasets.folders import cache, data_root
from pace.datasets.raw import Benchmark, download, fingerprint, locate
from pace.errors import GraphError, SettingError
from pace.graph import Graph

PYG_READS = ("Planetoid", "Coauthor", "Amazon")
PLANETOID = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")

BENCHMARKS = {
    name.lower(): Benchmark(
        name, "Planetoid", tuple(f"ind.{name.lower()}.{part}" for part in PLANETOID)
    )
    for name in ("Cora", "CiteSeer", "PubMed")
} | {
    "cs": Benchmark("CS", "Coauthor", ("ms_academic_cs.npz",)),
    "computers": Benchmark("Computers", "Amazon", ("amazon_electronics_computers.npz",)),
    "ogbn-arxiv": Benchmark("ogbn-arxiv", "OGB", ogb.FILES, (0.6, 0.2, 0.2)),
    "physics": Benchmark("Physics", "Coauthor", ("ms_academic_phy.npz",)),
    "photo": Benchmark("Photo", "Amazon", ("amazon_electronics_photo.npz",)),
    "twitch": Benchmark("Twitch", "Twitch", twitch.FILES, clients=twitch.COUNTRIES),
    **{
        name: Benchmark(
            heterophilous.stem(name), "Heterophilous", (f"{heterophilous.stem(name)}.npz",)
        )
        for name in heterophilous.NAMES
    },
}


def benchmark(name: str, root: str | Path | None = None) -> Dataset:
    """A benchmark, from the cache if its raw files were read before."""
    known = BENCHMARKS[name]
    folder = data_root(root)
    raw = locate(known, folder) or download(known, folder)
    kept = cache() / "datasets" / f"{name}-{fingerprint(raw, known.files)}{file.SUFFIX}"
    if kept.is_file():
        with contextlib.suppress(GraphError):  # of an older format, say: the raw files are there
            return replace(file.read(kept), partition=_partition(known))
    made = process(name, raw)
    with contextlib.suppress(SettingError):  # without a cache the next start is slower, that is all
        file.write(kept, made, compact=False)
    return made


def process(name: str, raw: Path) -> Dataset:
    """The dataset of the raw files. The public masks are dropped: clients draw their own."""
    known = BENCHMARKS[name]
    if known.family in PYG_READS and find_spec("torch_geometric") is None:
        raise SettingError(f"{name} is read by PyG: pip install 'pace-fgl[research]'")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about old pickles and archives: nothing to act on
            x, edges, y, *owner = READERS[known.family](raw, known)
        graph = Graph.build(x, edges, y)
    except Exception as error:  # on damaged files the readers raise whatever they stumble over
        raise GraphError(
            f"the raw files of {name} in {raw} cannot be read ({error!r}): "
            f"replace {', '.join(known.files)}"
        ) from error
    return Dataset(
        name,
        graph,
        int(y.max()) + 1,
        known.ratios,
        title=known.title,
        directed=edges if known.family == "OGB" else None,
        owner=owner[0] if owner else None,
        names=Names(clients=known.clients),
        partition=_partition(known),
    )


def _partition(known: Benchmark) -> str:
    return "column" if known.clients else "louvain"


Parts = tuple[Tensor, ...]  # features, edges, labels; and the client of each node, if it has one


def _planetoid(raw: Path, known: Benchmark) -> Parts:
    from torch_geometric.io import read_planetoid_data

    data = read_planetoid_data(str(raw), known.title)
    return data.x, data.edge_index, data.y


def _npz(raw: Path, known: Benchmark) -> Parts:
    from torch_geometric.io import read_npz

    data = read_npz(str(raw / known.files[0]))
    return data.x, data.edge_index, data.y


def _ogb(raw: Path, known: Benchmark) -> Parts:
    return ogb.read_ogb(raw)


def _twitch(raw: Path, known: Benchmark) -> Parts:
    return twitch.read_twitch(raw)


def _heterophilous(raw: Path, known: Benchmark) -> Parts:
    return heterophilous.read_heterophilous(raw / known.files[0])


# What the `process` of PyG's Planetoid, Coauthor and Amazon calls, without a processed/ folder.
READERS: dict[str, Callable[[Path, Benchmark], Parts]] = {
    "Planetoid": _planetoid,
    "Coauthor": _npz,
    "Amazon": _npz,
    "OGB": _ogb,
    "Twitch": _twitch,
    "Heterophilous": _heterophilous,
}
