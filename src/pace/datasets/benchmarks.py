"""The public benchmarks, each in the layout of its publisher: features as read, no transform.

Raw files are read once and kept in the cache as a .graph file, whose name tells which raw files it
was made of; the folder they lie in is never written to, except to put a download there.
"""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from pace.datasets import file
from pace.datasets.dataset import Dataset, Names
from pace.datasets.raw import Benchmark, cache_folder, data_root, download, fingerprint, locate
from pace.datasets.readers import COUNTRIES, HETEROPHILOUS, OGB, READERS, TWITCH
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
    "ogbn-arxiv": Benchmark("ogbn-arxiv", "OGB", OGB, (0.6, 0.2, 0.2)),
    "physics": Benchmark("Physics", "Coauthor", ("ms_academic_phy.npz",)),
    "photo": Benchmark("Photo", "Amazon", ("amazon_electronics_photo.npz",)),
    "twitch": Benchmark("Twitch", "Twitch", TWITCH, clients=COUNTRIES),
    **{
        name: Benchmark(stem, "Heterophilous", (f"{stem}.npz",))
        for name in HETEROPHILOUS
        if (stem := name.replace("-", "_"))
    },
}


def benchmark(name: str, root: str | Path | None = None) -> Dataset:
    """A benchmark, from the cache if its raw files were read before."""
    known = BENCHMARKS[name]
    folder = data_root(root)
    raw = locate(known, folder) or download(known, folder)
    kept = cache_folder() / "datasets" / f"{name}-{fingerprint(raw, known.files)}{file.SUFFIX}"
    if kept.is_file():
        with contextlib.suppress(GraphError):  # of an older format, say: the raw files are there
            return replace(file.read_graph(kept), partition=_partition(known))
    made = process(name, raw)
    with contextlib.suppress(SettingError):  # without a cache the next start is slower, that is all
        file.write_graph(kept, made, compact=False)
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
