"""The public benchmarks, each in the layout of its publisher: features as read, no transform.

Raw files are read once and kept in the cache as a .graph file, named after a digest of them; their
folder is never written to, except to put a download there.
"""

import csv
import hashlib
import json
import os
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import torch
from torch import Tensor

from pace import registry
from pace.datasets import file
from pace.datasets.dataset import RATIOS, Dataset, Names
from pace.errors import GraphError, SettingError
from pace.graph import Graph
from pace.io import atomic, records


@dataclass(frozen=True)
class Benchmark:
    """What a benchmark is called, its raw files, and how it is split; see `benchmarks.toml`."""

    title: str
    family: str
    home: Path
    files: tuple[str, ...]
    ratios: tuple[float, float, float] = RATIOS
    clients: tuple[str, ...] = ()
    published: str = ""


BENCHMARKS = {
    name: records.read_record(Benchmark, entry) for name, entry in registry.BENCHMARKS.items()
}


def benchmark(name: str, root: str | Path | None = None, train: float | None = None) -> Dataset:
    """A benchmark, from the cache if its raw files were read before.

    `train` is the share of nodes that train, of those that train or validate; test nodes stay.
    """
    entry = BENCHMARKS[name]
    labelled = sum(entry.ratios[:2])
    if train is not None and not 0 < train <= labelled:
        raise SettingError(
            f"{name}'s train is {train}, expected a share above 0 and at most {labelled:.3g}"
        )
    ratios = entry.ratios if train is None else (train, labelled - train, entry.ratios[2])
    folder = data_root(root)
    raw = locate(entry, folder) or download(entry, folder)
    stats = [((raw / part).stat(), part) for part in entry.files]
    facts = [str(raw.resolve()), *((part, s.st_size, s.st_mtime_ns) for s, part in stats)]
    fingerprint = hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
    cached = cache_folder() / "datasets" / f"{name}-{fingerprint}{file.SUFFIX}"
    try:
        dataset = file.read_graph(cached)
    except GraphError:  # it is not there, or of an older format
        dataset = process(name, raw)
        with suppress(OSError):  # without a cache the next start is slower, that is all
            file.write_graph(cached, dataset)
    shown = name if train is None else f"{name}:train={train:g}"
    partition = "column" if entry.clients else "louvain"
    return replace(dataset, name=shown, ratios=ratios, partition=partition)


def process(name: str, raw: Path) -> Dataset:
    """The dataset of the raw files. The public masks are dropped: clients draw their own."""
    entry = BENCHMARKS[name]
    read = READERS.get(entry.family, read_pyg)
    if read is read_pyg and not find_spec("torch_geometric"):
        raise SettingError(f"{name} is read by PyG: pip install 'pace-fgl[research]'")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about old pickles and archives: nothing to act on
            x, edges, y, *owner = read(raw, entry)
        graph = Graph.build(x, edges, y)
    except Exception as error:  # on damaged files the readers raise whatever they stumble over
        raise GraphError(
            f"the raw files of {name} in {raw} cannot be read ({error!r}): "
            f"replace {', '.join(entry.files)}"
        ) from error
    return Dataset(
        name,
        graph,
        int(y.max()) + 1,
        entry.ratios,
        title=entry.title,
        directed=edges if entry.family == "OGB" else None,
        owner=owner[0] if owner else None,
        names=Names(clients=entry.clients),
    )


def read_pyg(raw: Path, benchmark: Benchmark) -> tuple[Tensor, ...]:
    """Planetoid, Coauthor and Amazon, as PyG's `process` does, without its folders."""
    from torch_geometric import io

    if benchmark.family == "Planetoid":
        data = io.read_planetoid_data(str(raw), benchmark.title)
    else:
        data = io.read_npz(str(raw / benchmark.files[0]))
    return data.x, data.edge_index, data.y


def read_heterophilous(raw: Path, benchmark: Benchmark) -> tuple[Tensor, ...]:
    """Graphs whose neighbours differ (Platonov et al., 2023). Their splits are not read."""
    names = ("node_features", "edges", "node_labels")
    with np.load(raw / benchmark.files[0], allow_pickle=False) as stored:
        x, edges, y = (torch.from_numpy(stored[name]) for name in names)
    return x.float(), edges.long().t(), y.long()


def read_ogb(raw: Path, benchmark: Benchmark) -> tuple[Tensor, ...]:
    """A dataset of one graph, without the `ogb` package.

    That asks the internet for a newer version of itself when imported, and unpickles what it processed.
    """
    kinds = (np.int64, np.float32, np.int64, np.int64)
    edges, x, y, count = (
        np.loadtxt(raw / name, dtype=kind, delimiter=",", ndmin=2)
        for name, kind in zip(benchmark.files, kinds, strict=True)
    )
    if not int(count.item()) == len(x) == len(y):
        raise ValueError(f"{count.item()} nodes, {len(x)} rows of features and {len(y)} labels")
    ends, labels = edges.T.copy(), y[:, 0].copy()
    return torch.from_numpy(x), torch.from_numpy(ends), torch.from_numpy(labels)


def read_twitch(raw: Path, benchmark: Benchmark) -> tuple[Tensor, ...]:
    """Seven graphs that share features (Rozemberczki et al., 2021); each country is a client.

    Features, the same 3,170 in every country, are what streamers play and like and where they live;
    labels say whether they use mature language. Nodes are numbered by `new_id`; France's table lists
    two streamers twice.
    """
    first, parts, paths = 0, [], [raw / name for name in benchmark.files]
    for number in range(len(benchmark.clients)):
        edges_path, features_path, target_path = paths[3 * number : 3 * number + 3]
        with target_path.open(newline="", encoding="utf-8") as opened:
            mature = {int(row["new_id"]): row["mature"] == "True" for row in csv.DictReader(opened)}
        if sorted(mature) != list(range(len(mature))):
            raise ValueError(f"{target_path.name} does not number nodes from 0 by new_id")
        y = torch.tensor([mature[node] for node in range(len(mature))]).long()
        x = torch.zeros(len(y), 3170)
        for node, listed in json.loads(features_path.read_text(encoding="utf-8")).items():
            x[int(node), torch.tensor(listed, dtype=torch.int64)] = 1.0
        pairs = np.loadtxt(edges_path, dtype=np.int64, delimiter=",", skiprows=1).reshape(-1, 2)
        parts.append((x, torch.from_numpy(pairs).t() + first, y, torch.full_like(y, number)))
        first += len(y)
    features, ends, labels, owners = zip(*parts, strict=True)
    return torch.cat(features), torch.cat(ends, dim=1), torch.cat(labels), torch.cat(owners)


# By family: features, edges, labels and, where nodes have clients, those. PyG reads the others.
READERS = {"OGB": read_ogb, "Twitch": read_twitch, "Heterophilous": read_heterophilous}


def data_root(given: str | Path | None = None) -> Path:
    """The folder of the benchmarks: the one given, else $PACE_DATA, else the cache."""
    chosen = given or os.environ.get("PACE_DATA")
    if not chosen:
        return cache_folder()
    root = Path(chosen).expanduser()
    if not root.is_dir():
        raise SettingError(
            f"the data root is {root}, not a folder: name the benchmarks by --data-root or PACE_DATA"
        )
    return root


def cache_folder() -> Path:
    """The user's cache folder; it need not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pace"


def writable(folder: Path) -> bool:
    """Whether we may add files. A folder without any write permission is kept so, even from root."""
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & 0o222)


def locate(entry: Benchmark, root: Path) -> Path | None:
    """The folder that holds all the raw files, in the root or among earlier downloads."""
    homes = (entry.home, entry.family / entry.home, Path(entry.title, "raw"))
    for folder in [base / home for base in (root, cache_folder()) for home in homes]:
        if all((folder / name).is_file() for name in entry.files):
            return folder
    return None


def download(entry: Benchmark, root: Path) -> Path:
    """Fetch the raw files into the root, or into the cache where the root is read-only."""
    folder = (root if writable(root) else cache_folder()) / entry.home
    try:
        if entry.published:
            raise OSError(f"PyG does not know {entry.published}")
        for name in entry.files:
            atomic.write(folder / name, fetch(entry, name))
    except (OSError, ImportError) as error:
        raise SettingError(
            f"{entry.title} is not in {root} and was not downloaded ({error}): put "
            f"{', '.join(entry.files)} into {root / entry.home}, or name the folder that has them "
            "with --data-root or PACE_DATA"
        ) from error
    return folder


def fetch(entry: Benchmark, name: str) -> bytes:
    """One raw file, from the address PyG knows."""
    from torch_geometric import datasets

    kind = "HeterophilousGraphDataset" if entry.family == "Heterophilous" else entry.family
    address = getattr(datasets, kind).url.rstrip("/")
    with urlopen(f"{address}/{name}", timeout=60) as answer:
        return answer.read()  # type: ignore[no-any-return]
