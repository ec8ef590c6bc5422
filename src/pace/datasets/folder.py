"""Graphs larger than memory: nodes and edges that come in blocks become a folder (`models.mapped`).

Edges are sorted outside memory: both directions go to files by ranges of nodes, and each file is sorted
by itself. What is complete stays beside the folder until all of it is, so that an import that was
killed goes on behind its last part.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pace.datasets.dataset import Dataset, Names
from pace.errors import GraphError
from pace.graph import MASKS, coalesced
from pace.io import atomic, records
from pace.models import MappedGraph

ABOUT = "graph.json"
FOLDER = "pace-graph-folder-1"
WIDEST = 32  # columns of a product: wider ones take no less time an edge
RANGES = 256  # of nodes, whose edges are sorted together: an entry takes 256 bytes, for a moment
Nodes = tuple[Tensor, Tensor, Tensor]  # features, labels and split (0: none, 1: train …) of a block
Edges = tuple[Tensor, Tensor | None]  # (2, m), and weights


@dataclass(frozen=True)
class About:
    """What a folder says of itself."""

    format: str
    name: str
    nodes: int
    features: int
    classes: int
    ratios: tuple[float, float, float]
    names: Names
    width: int  # columns of a file
    directed: bool
    weighted: bool
    memory: int  # bytes that work on it may take
    entries: int = 0  # edges, counted in both directions
    identity: str = ""

    @property
    def pair(self) -> np.dtype[Any]:
        """Of an entry before it is sorted: row · nodes + column, and perhaps its weight."""
        key = [("key", np.int64)]
        return np.dtype([*key, ("weight", np.float32)] if self.weighted else key)


def is_folder(path: Path) -> bool:
    return (path / ABOUT).is_file()


def read_folder(folder: Path) -> tuple[Dataset, About]:
    """The dataset of a folder, whose graph reads its arrays where they are asked for."""
    about = records.load_record(About, folder / ABOUT, 2**26, FOLDER)
    nodes, entries = about.nodes, about.entries
    sizes = {"starts": 8 * nodes + 8, "neighbours": 4 * entries, "y": 4 * nodes, "split": nodes}
    for number, first in enumerate(range(0, about.features, about.width)):
        sizes[f"x/{number}"] = 4 * nodes * min(about.width, about.features - first)
    for name, size in sizes.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            raise GraphError(f"{path} is absent or has not {size:,} bytes: import the graph again")
    y = torch.from_numpy(np.fromfile(folder / "y", np.int32)).long()
    split = torch.from_numpy(np.fromfile(folder / "split", np.uint8))
    graph = MappedGraph(
        torch.zeros(1, 1).expand(nodes, about.features),
        torch.zeros(1, 1, dtype=torch.int64).expand(2, entries),
        y,
        **{mask: split == number for number, mask in enumerate(MASKS, start=1)},
        weights=torch.ones(1).expand(entries) if about.weighted else None,
        directed=about.directed,
        folder=folder,
        width=about.width,
        identity=about.identity,
    )
    return Dataset(about.name, graph, about.classes, about.ratios, names=about.names), about


def width_of(nodes: int, columns: int, memory: int) -> int:
    """How many columns at a time take a third of the memory, twice; evenly divided."""
    most = max(1, min(WIDEST, columns, memory // (12 * nodes)))
    return -(-columns // -(-columns // most))


def write_folder(
    out: Path,
    about: About,
    origin: str,
    nodes: Callable[[], Iterable[Nodes]],
    edges: Callable[[], Iterable[Edges]],
    finish: Callable[[Path], object] = lambda folder: None,
) -> About:
    """A folder of nodes and edges that are asked for in blocks, and what it says of itself.

    `origin` names what they come from: where an import of the same was killed, this one goes on behind
    its last part. `finish` may put more into the folder before it appears.
    """
    staged = out.with_name(f".{out.name}.import")
    with atomic.held(out.with_name(f".{out.name}.lock"), f"another import is at work on {out}"):
        if out.exists():
            raise GraphError(f"{out} already exists: choose another --out, or move it")
        mark = staged / "origin"
        if not mark.exists() or mark.read_text() != origin:
            shutil.rmtree(staged, ignore_errors=True)
            atomic.write(mark, origin.encode())
        if not (complete := staged / "nodes").exists():
            _write_nodes(staged, about, nodes())
            atomic.write(complete, b"")
        if not (scattered := staged / "scattered").exists():
            _scatter(staged, about, edges())
            atomic.write(scattered, b"")
        about = replace(about, entries=_write_edges(staged, about))
        about = replace(about, identity=_identity(staged, about))
        finish(staged)
        for path in (mark, complete, scattered, *staged.glob("edges.*")):
            path.unlink()
        atomic.write(staged / ABOUT, json.dumps(records.plain_record(about)).encode())
        os.chmod(staged, 0o700)
        os.rename(staged, out)
    return about


def _write_nodes(staged: Path, about: About, blocks: Iterable[Nodes]) -> None:
    """Features by columns, labels and split."""
    seen = 0
    (staged / "x").mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        panels = [
            (stack.enter_context((staged / "x" / str(number)).open("wb")), first)
            for number, first in enumerate(range(0, about.features, about.width))
        ]
        labels, splits = (stack.enter_context((staged / n).open("wb")) for n in ("y", "split"))
        for x, y, split in blocks:
            if not torch.isfinite(x.sum()):
                raise GraphError(f"a feature of nodes {seen:,} to {seen + len(x):,} is not finite")
            for file, first in panels:
                part = x[:, first : first + about.width].float().contiguous()
                file.write(part.numpy().data)
            labels.write(y.int().numpy().data)
            splits.write(split.byte().numpy().data)
            seen += len(x)
    if seen != about.nodes:
        raise GraphError(f"{seen:,} nodes came, {about.nodes:,} were counted before")


def _scatter(staged: Path, about: About, blocks: Iterable[Edges]) -> None:
    """Each edge, in both directions unless these are kept, to the file of the node it arrives at."""
    size = -(-about.nodes // RANGES)
    with ExitStack() as stack:
        paths = [staged / f"edges.{first}" for first in range(0, about.nodes, size)]
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for (source, target), weights in blocks:
            pairs = np.empty(len(source) * (1 if about.directed else 2), about.pair)
            pairs["key"][: len(source)] = target * about.nodes + source
            if not about.directed:
                pairs["key"][len(source) :] = source * about.nodes + target
            if about.weighted:
                assert weights is not None
                pairs["weight"] = weights.repeat(len(pairs) // max(1, len(source)))
            owner = (pairs["key"] // (about.nodes * size)).astype(np.uint8)  # sorted by counting
            pairs = pairs[np.argsort(owner, kind="stable")]
            cuts = np.cumsum(np.bincount(owner, minlength=len(files)))
            for file, part in zip(files, np.split(pairs, cuts[:-1]), strict=True):
                file.write(part.data)


def _write_edges(staged: Path, about: About) -> int:
    """Neighbours by node, sorted, and where each node's begin; how many entries there are."""
    degrees, names = [np.zeros(1, np.int64)], ("neighbours", "weights")[: 1 + about.weighted]
    with ExitStack() as stack:
        files = [stack.enter_context((staged / name).open("wb")) for name in names]
        size = -(-about.nodes // RANGES)
        for first in range(0, about.nodes, size):
            pairs = np.fromfile(staged / f"edges.{first}", about.pair)
            keys = torch.from_numpy(pairs["key"].copy())
            weights = torch.from_numpy(pairs["weight"].copy()) if about.weighted else None
            ends = torch.stack([keys // about.nodes, keys % about.nodes])
            # Both directions are there: what is given more than once weighs the mean.
            (row, near), means = coalesced(ends, about.nodes, weights, directed=True)
            count = min(size, about.nodes - first)
            degrees.append(torch.bincount(row - first, minlength=count).numpy())
            for file, values in zip(files, (near.int(), means), strict=False):
                assert values is not None
                file.write(values.numpy().data)
    starts = np.cumsum(np.concatenate(degrees))
    starts.tofile(staged / "starts")
    return int(starts[-1])


def _identity(staged: Path, about: About) -> str:
    """The SHA-256 of all it holds."""
    sha = hashlib.sha256(repr(records.plain_record(about)).encode())
    names = [*sorted((staged / "x").iterdir(), key=lambda path: int(path.name))]
    names += [staged / name for name in ("starts", "neighbours", "y", "split")]
    for path in [*names, *([staged / "weights"] if about.weighted else [])]:
        with path.open("rb") as file:
            while block := file.read(2**24):
                sha.update(block)
    return sha.hexdigest()
