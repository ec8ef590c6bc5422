"""Datasets by name, or as a .graph file: safetensors, read without running anything.

Tensors:

    edges      (2, m)  int32    as stored: both directions, or with directions where they matter
    y          (n,)    int32    -1 where there is no label
    x          (n, d)  float32  or, where most of it is zero, in CSR form:
    x.indptr, x.indices, x.values
    split      (n,)    uint8    optional: 1 train, 2 validation, 3 test, 0 none
    owner      (n,)    int32    optional: the client of each node
    weights    (m,)    float32  optional: of the edges, in their order
    ids                uint8    optional: the users' node ids, a JSON list

The header's `pace` entry is a JSON object: format, name, title, features (d), classes (how many),
ratios, the names of classes, features and clients, and `directed` where edges keep their directions,
and the `mapping` of the site's own columns where there is one.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from scipy import sparse
from torch import Tensor

from pace.datasets.dataset import Dataset, Names
from pace.datasets.synthetic import Synthetic, synthetic
from pace.errors import GraphError, SettingError
from pace.graph import MASKS, Graph
from pace.io import atomic, records, split_settings, untrusted
from pace.models import SPARSE_BELOW, density
from pace.registry import DATASETS

SUFFIX = ".graph"
FORMAT = "pace-graph-1"
ROOM, ROOM_PER_BYTE = 2**26, 2**10  # bytes of features that a file may unfold to
CLASSES = 2**16
CSR = ("values", "indices", "indptr")
WRONG = (TypeError, ValueError, AttributeError, RuntimeError)  # of parts that do not fit
TENSORS = {"edges", "y", "x", "split", "owner", "ids", "weights", *(f"x.{part}" for part in CSR)}


@dataclass(frozen=True)
class Header:
    """The `pace` entry of a file's header."""

    format: str
    name: str
    title: str
    features: int
    classes: int
    ratios: tuple[float, float, float]
    names: Names
    directed: bool = records.optional(False)
    mapping: dict[str, Any] = field(default_factory=dict, metadata=records.OPTIONAL)


def load(name: str, root: str | Path | None = None) -> Dataset:
    """A dataset by name, or from a .graph file.

    Args:
        name: `cora`, another of `DATASETS`, `synthetic:nodes=500,degree=6`, or the path of a file.
        root: the folder of the benchmarks; $PACE_DATA or the cache by default.

    Returns:
        The whole graph; `pace.divide` makes client graphs of it.

    Raises:
        SettingError: the name is unknown, or a benchmark is neither there nor to be downloaded.
        GraphError: the file is damaged.

    Example:
        >>> import pace
        >>> pace.load("synthetic:nodes=90,features=12,communities=3,classes=3").classes
        3
    """
    path = Path(name)
    listed = split_settings(name)[0].lower()
    if path.suffix == SUFFIX or (path.is_file() and listed not in DATASETS):
        return replace(read_graph(path), name=path.stem)
    dataset = DATASETS.prepare(name, name=listed, root=root)()
    if isinstance(dataset, Synthetic):
        dataset = Dataset(name, synthetic(dataset), dataset.classes)
    if not isinstance(dataset, Dataset):
        kind = type(dataset).__name__
        raise SettingError(f"{name} makes a {kind}, expected a pace.datasets.Dataset")
    return dataset


def write_graph(path: Path, dataset: Dataset) -> None:
    """Put the dataset at `path`, completely or not at all.

    Bags of words take a hundredth of the room as CSR, and no more time.
    """
    graph, names = dataset.graph, dataset.names
    if dataset.classes > CLASSES:
        raise GraphError(f"there are {dataset.classes:,} classes, expected at most {CLASSES:,}")
    plain = graph.weights is None and not graph.directed
    tensors = {"edges": (dataset.stored if plain else graph.edges).int(), "y": graph.y.int()}
    if density(graph.x) < SPARSE_BELOW:
        matrix = sparse.csr_array(graph.x.numpy())
        tensors["x.indptr"] = torch.from_numpy(matrix.indptr.astype(np.int64))
        tensors["x.indices"] = torch.from_numpy(matrix.indices.astype(np.int32))
        tensors["x.values"] = torch.from_numpy(matrix.data)
    else:
        tensors["x"] = graph.x
    if graph.weights is not None:
        tensors["weights"] = graph.weights
    if dataset.has_split:
        tensors["split"] = (graph.split + 1).byte()
    if dataset.owner is not None:
        tensors["owner"] = dataset.owner.int()
    if names.nodes:
        ids = bytearray(json.dumps(names.nodes).encode())
        tensors["ids"] = torch.frombuffer(ids, dtype=torch.uint8)
    own = {key: getattr(dataset, key) for key in ("name", "title", "classes", "ratios", "mapping")}
    own |= {"features": graph.features, "directed": graph.directed}
    header = Header(FORMAT, **own, names=replace(names, nodes=()))
    about = {"pace": json.dumps(records.plain_record(header))}
    atomic.write(path, save({key: part.contiguous() for key, part in tensors.items()}, about))


def graph_sizes(path: Path) -> tuple[int, int, int]:
    """Nodes, edges in both directions and features of a .graph file, from its header."""
    try:
        with safe_open(path, framework="pt") as opened:
            features = untrusted.json((opened.metadata() or {}).get("pace", "{}"))["features"]
            shapes = [opened.get_slice(name).get_shape() for name in ("y", "edges")]
        return shapes[0][0], 2 * shapes[1][1], int(features)
    except (SafetensorError, OSError, LookupError, TypeError, ValueError):
        return 0, 0, 0  # reading it says what is wrong


def read_graph(path: Path) -> Dataset:
    """The dataset of a .graph file; anything else is refused with one sentence."""
    remedy = "make one of tables with `pace graph import`"
    if not path.exists():
        raise GraphError(f"{path} not found: {remedy}")
    if path.is_dir():
        raise GraphError(f"{path} is a folder, which `pace client` takes: give a .graph file")
    try:
        with untrusted.open_regular(path) as file:
            size, length = untrusted.size_of(file), int.from_bytes(file.read(8), "little")
            if length > 2**26:  # a million feature names fit
                raise ValueError(f"a header of {length:,} bytes")
            # By its descriptor: a FIFO that is put in the file's place meanwhile is not opened.
            with safe_open(f"/dev/fd/{file.fileno()}", framework="pt") as opened:
                about = untrusted.json((opened.metadata() or {}).get("pace", "{}"))
                if (stated := about.get("format")) != FORMAT:
                    raise GraphError(f"{path} {records.other_format(stated, FORMAT, remedy)}")
                present = TENSORS.intersection(opened.keys())
                tensors = {name: opened.get_tensor(name) for name in present}
        header = records.read_record(Header, about)
        if records.plain_record(header) != about:
            raise ValueError("a header that is not ours")
        return _dataset(path, size, header, tensors)
    except GraphError:
        raise
    except (SafetensorError, OSError, LookupError, *WRONG) as error:
        raise GraphError(f"{path} is not a .graph file ({error}): {remedy}") from error


def _dataset(path: Path, size: int, header: Header, tensors: dict[str, Tensor]) -> Dataset:
    """What a file holds, where its parts fit each other."""
    y, edges, ratios = tensors["y"].long(), tensors["edges"].long(), header.ratios
    if not (all(0 <= ratio <= 1 for ratio in ratios) and sum(ratios) < 1 + 1e-6):
        raise GraphError(f"{path} splits nodes by {ratios}, expected shares: make it again")
    # A small file must not ask for much memory: absent features and classes take no bytes.
    if not bool((y >= 0).any()) <= header.classes <= CLASSES:  # without labels, perhaps none
        raise GraphError(f"{path} declares {header.classes} classes, expected 1 to {CLASSES:,}")
    if "x" not in tensors:
        if 4 * len(y) * header.features > (room := ROOM + ROOM_PER_BYTE * size):
            raise GraphError(f"{path} declares {header.features} features: above {room:,} bytes")
        parts = tuple(tensors[f"x.{part}"].numpy() for part in CSR)
        matrix = sparse.csr_array(parts, shape=(len(y), header.features))
        matrix.check_format(full_check=True)  # a damaged index must not write elsewhere
        tensors["x"] = torch.from_numpy(matrix.toarray())
    split = tensors.get("split", torch.zeros(len(y), dtype=torch.uint8))
    masks = {mask: split == number for number, mask in enumerate(MASKS, start=1)}
    weights = tensors["weights"].float() if "weights" in tensors else None
    graph = Graph.build(tensors["x"], edges, y, **masks, weights=weights, directed=header.directed)
    if int(y.max()) >= header.classes:
        raise GraphError(f"label {int(y.max())} is beyond the file's {header.classes} classes")
    names, owner = header.names, tensors.get("owner")
    if "ids" in tensors:
        ids = untrusted.json(tensors["ids"].numpy().tobytes())
        names = replace(names, nodes=tuple(map(str, ids)))
    if graph.features != header.features:
        raise GraphError(f"x has {graph.features} columns, the header says {header.features}")
    counts = {"classes": header.classes, "features": graph.features, "nodes": graph.nodes}
    for kind, count in counts.items():
        if (named := len(getattr(names, kind))) not in (0, count):
            raise GraphError(f"the file names {named:,} {kind}, and has {count:,}")
    return Dataset(
        header.name,
        graph,
        header.classes,
        ratios,
        title=header.title,
        directed=None if torch.equal(edges, graph.edges) else edges,
        owner=None if owner is None else owner.long(),
        names=names,
        mapping=header.mapping,
    )
