"""A dataset as a .graph file: safetensors, read without running anything.

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
ratios, the names of classes, features and clients, and `directed` where edges keep their directions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from scipy import sparse
from torch import Tensor

from pace.datasets.dataset import Dataset, Names
from pace.errors import GraphError, SettingError
from pace.graph import Graph
from pace.io import atomic, untrusted
from pace.io.untrusted import open_regular, size_of
from pace.models.operator import SPARSE_BELOW, density

SUFFIX = ".graph"
FORMAT = "pace-graph-1"
MASKS = ("train", "val", "test")  # 1, 2, 3 in `split`
HEADER = 64 * 2**20  # bytes; a million feature names fit
ROOM, ROOM_PER_BYTE = 2**26, 2**10  # bytes of features that a file may unfold to
CLASSES = 2**16
NAMED = ("classes", "features", "clients")
TENSORS = (
    "edges", "y", "x", "x.indptr", "x.indices", "x.values", "split", "owner", "ids", "weights"
)  # fmt: skip


def write_graph(path: Path, dataset: Dataset, *, compact: bool = True) -> None:
    """Put the dataset at `path`, completely or not at all.

    A dense x is mapped into memory when read, which is faster than making it from CSR.
    """
    graph = dataset.graph
    if dataset.classes > CLASSES:
        raise GraphError(f"there are {dataset.classes:,} classes, expected at most {CLASSES:,}")
    features = _sparse(graph.x) if compact and density(graph.x) < SPARSE_BELOW else {"x": graph.x}
    plain = graph.weights is None and not graph.directed
    edges = dataset.stored if plain else graph.edges
    tensors = {"edges": edges.int(), "y": graph.y.int(), **features}
    if graph.weights is not None:
        tensors["weights"] = graph.weights
    if dataset.has_split:
        tensors["split"] = sum(
            (number * getattr(graph, mask) for number, mask in enumerate(MASKS, start=1)),
            start=torch.zeros(graph.nodes, dtype=torch.int64),
        ).to(torch.uint8)
    if dataset.owner is not None:
        tensors["owner"] = dataset.owner.int()
    if dataset.names.nodes:
        tensors["ids"] = torch.frombuffer(
            bytearray(json.dumps(dataset.names.nodes).encode()), dtype=torch.uint8
        )
    about = {
        "format": FORMAT,
        "name": dataset.name,
        "title": dataset.title,
        "features": graph.features,
        "classes": dataset.classes,
        "ratios": dataset.ratios,
        "names": {kind: getattr(dataset.names, kind) for kind in NAMED},
        **({"directed": True} if graph.directed else {}),
    }
    content = save(
        {name: value.contiguous() for name, value in tensors.items()}, {"pace": json.dumps(about)}
    )
    try:
        atomic.write(path, content)
    except OSError as error:
        raise SettingError(f"cannot write {path}: {error.strerror or error}") from error


def read_graph(path: Path) -> Dataset:
    """The dataset of a .graph file; anything else is refused with one sentence."""
    if not path.exists():
        raise GraphError(f"{path} not found: make it with `pace graph import`")
    try:
        with open_regular(path) as file, safe_open(_checked(file, path), framework="pt") as opened:
            size = size_of(file)
            about = untrusted.json((opened.metadata() or {}).get("pace", "{}"))
            if about.get("format") != FORMAT:
                raise GraphError(
                    f"{path} has format {about.get('format')!r}, expected {FORMAT!r}: "
                    "make it again with `pace graph import`"
                )
            present = [name for name in opened.keys() if name in TENSORS]  # noqa: SIM118
            tensors = {name: opened.get_tensor(name) for name in present}
        if not _is_sound(about):
            raise GraphError(f"{path} has a header that is not ours: make it again")
        _check_room(path, size, about, tensors)
        return _dataset(about, tensors)
    except (SafetensorError, OSError) as error:
        raise GraphError(
            f"{path} is not a .graph file, or it was cut short ({error}): "
            "make it again with `pace graph import`"
        ) from error
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        if isinstance(error, GraphError):
            raise
        raise GraphError(f"{path} is damaged ({error!r}): make it again") from error


def _checked(file: BinaryIO, path: Path) -> str:
    """A name of the open file for the library, which would read 100 MB of a header.

    It is the descriptor's name: a FIFO that is put in the file's place meanwhile is not opened.
    """
    length = int.from_bytes(file.read(8), "little")
    if length > HEADER:
        raise GraphError(
            f"{path} is not a .graph file (its header would have {length:,} bytes, expected at most "
            f"{HEADER:,}): make one of tables with `pace graph import`"
        )
    return f"/dev/fd/{file.fileno()}"


def _is_sound(about: dict[str, Any]) -> bool:
    """Whether the header's `pace` entry is of the kinds that `write_graph` gives it."""
    names, ratios = about["names"], about["ratios"]
    texts = [about["name"], about["title"], *(text for kind in NAMED for text in names[kind])]
    return (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(names[kind], list) for kind in NAMED)
        and all(type(about[count]) is int for count in ("features", "classes"))
        and len(ratios) == 3
        and all(isinstance(ratio, int | float) and 0 <= ratio <= 1 for ratio in ratios)
        and sum(ratios) < 1 + 1e-6
    )


def _check_room(path: Path, size: int, about: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """A small file must not ask for much memory: absent features and classes take no bytes."""
    if not 1 <= int(about["classes"]) <= CLASSES:
        raise GraphError(f"{path} declares {about['classes']} classes, expected 1 to {CLASSES:,}")
    if "x" not in tensors:
        room = ROOM + ROOM_PER_BYTE * size
        if 4 * len(tensors["y"]) * int(about["features"]) > room:
            raise GraphError(
                f"{path} declares {about['features']} features for {len(tensors['y'])} nodes, "
                f"which would take more than {room:,} bytes: make it again"
            )


def _dataset(about: dict[str, Any], tensors: dict[str, Tensor]) -> Dataset:
    y, edges = tensors["y"].long(), tensors["edges"].long()
    split = tensors.get("split", torch.zeros(len(y), dtype=torch.uint8))
    masks = {mask: split == number for number, mask in enumerate(MASKS, start=1)}
    graph = Graph.build(
        _dense(tensors, (len(y), about["features"])),
        edges,
        y,
        **masks,
        weights=tensors["weights"].float() if "weights" in tensors else None,
        directed=about.get("directed") is True,
    )
    if int(y.max()) >= about["classes"]:
        raise GraphError(f"label {int(y.max())} is beyond the file's {about['classes']} classes")
    names = {kind: tuple(about["names"][kind]) for kind in NAMED}
    if "ids" in tensors:
        names["nodes"] = tuple(map(str, untrusted.json(tensors["ids"].numpy().tobytes())))
    if graph.features != about["features"]:
        raise GraphError(f"x has {graph.features} columns, the header says {about['features']}")
    counts = {"classes": about["classes"], "features": graph.features, "nodes": graph.nodes}
    for kind, count in counts.items():
        if (named := len(names.get(kind, ()))) not in (0, count):
            raise GraphError(f"the file names {named:,} {kind}, and has {count:,}")
    owner = tensors["owner"].long() if "owner" in tensors else None
    if owner is not None and (
        owner.shape != y.shape or int(owner.min()) < 0 or int(owner.max()) >= len(names["clients"])
    ):
        raise GraphError("the file's clients do not fit its nodes")
    return Dataset(
        about["name"],
        graph,
        about["classes"],
        tuple(about["ratios"]),
        title=about["title"],
        directed=None if torch.equal(edges, graph.edges) else edges,
        owner=owner,
        names=Names(**names),
    )


def _sparse(x: Tensor) -> dict[str, Tensor]:
    """Bags of words take a hundredth of the room as CSR."""
    matrix = sparse.csr_array(x.numpy())
    return {
        "x.indptr": torch.from_numpy(matrix.indptr.astype(np.int64)),
        "x.indices": torch.from_numpy(matrix.indices.astype(np.int32)),
        "x.values": torch.from_numpy(matrix.data),
    }


def _dense(tensors: dict[str, Tensor], shape: tuple[int, int]) -> Tensor:
    if "x" in tensors:
        return tensors["x"]
    parts = tuple(tensors[f"x.{part}"].numpy() for part in ("values", "indices", "indptr"))
    matrix = sparse.csr_array(parts, shape=shape)
    matrix.check_format(full_check=True)  # a damaged index must not write elsewhere
    return torch.from_numpy(matrix.toarray())
