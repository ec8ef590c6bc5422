"""Graphs larger than memory: tables of rows, and folders of arrays, read some rows or columns at a time.

    graph.json   sizes, names and a digest of the arrays, which are numbers one after the other
    x/0 …        features, a few columns in each file, (nodes, columns) float32
    starts       (nodes + 1,) int64: where each node's neighbours begin
    neighbours   (entries,) int32, sorted at each node; with directions, those an edge comes from
    weights      (entries,) float32, where edges have weights
    y, split     (nodes,) int32, -1 where there is no label, and uint8 as in a .graph file
    ids.parquet  what nodes are called
    made/        products of these, such as P X: each is made once

A product A H takes a few columns of H into memory and reads the edges once for them: memory is nodes
times these columns, time is edges times columns. A file appears when it is complete, so that work
which was interrupted goes on behind the last one.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from pace.graph import Graph
from pace.io import atomic
from pace.models.operator import Operator

READ = 2**16  # rows that are mapped together
LOGITS = "logits-"  # what the names of a model's products begin with
EDGES = 2**21  # neighbours that are read together: a tenth of a second
Array = np.ndarray[Any, np.dtype[Any]]
Source = Callable[[Tensor, slice], Tensor]  # (nodes, columns) -> those of a matrix


def mapped(path: Path, kind: type = np.float32) -> Array:
    """The numbers of a file. Its pages count as this process's memory until it is forgotten."""
    if not path.stat().st_size:
        return np.zeros(0, kind)
    return np.memmap(path, kind, "r")


@dataclass(frozen=True, eq=False)
class Stored(Operator):
    """A matrix in a folder, `width` columns a file; memory is for the rows that are asked for.

    `matrix` has its shape and nothing in it.
    """

    folder: Path
    width: int

    def __getitem__(self, nodes: Tensor) -> Tensor:
        return self.part(nodes, slice(0, self.shape[1]))

    def part(self, nodes: Tensor, columns: slice) -> Tensor:
        """Some columns, which are those of whole files, of some nodes (a mask or indices)."""
        index = nodes.nonzero().flatten() if nodes.dtype == torch.bool else nodes
        rows = np.empty((len(index), columns.stop - columns.start), np.float32)
        for first in range(0, len(index), READ):
            chosen = index[first : first + READ].numpy()
            together = len(chosen) and chosen[-1] - chosen[0] == len(chosen) - 1
            where = slice(chosen[0], chosen[-1] + 1) if together else chosen
            for column in range(columns.start, columns.stop, self.width):
                panel = mapped(self.folder / str(column // self.width)).reshape(self.shape[0], -1)
                at = column - columns.start
                rows[first : first + READ, at : at + self.width] = panel[where]
        return torch.from_numpy(rows)

    def rows(self, chosen: Tensor) -> Operator:
        """The chosen rows in memory, as a constant to multiply by."""
        return Operator(self[chosen])


@dataclass(frozen=True, eq=False, kw_only=True)
class OnDisk(Graph):
    """A graph in files, which were checked when they were made: nothing of it is read to be checked."""

    identity: str = ""  # of the files

    def __post_init__(self) -> None:
        pass

    @property
    def fingerprint(self) -> str:
        return self.identity


@dataclass(frozen=True, eq=False, kw_only=True)
class MappedGraph(OnDisk):
    """The graph of a folder; `x`, `edges` and `weights` have the right shapes and nothing in them."""

    folder: Path
    width: int  # columns of a product that are in memory together

    @cached_property
    def stored(self) -> Stored:
        """X."""
        return Stored(self.x, self.folder / "x", self.width)

    @cached_property
    def starts(self) -> Array:
        return np.fromfile(self.folder / "starts", np.int64)

    @cached_property
    def degrees(self) -> Tensor:
        """How many neighbours each node has, (nodes, 1)."""
        return torch.from_numpy(np.diff(self.starts)).float()[:, None]

    def around(self, first: int, last: int) -> tuple[Tensor, Tensor | None]:
        """Neighbours of the nodes from `first` to before `last`, and the weights of their edges."""
        entries = slice(self.starts[first], self.starts[last])
        arrays = [np.array(mapped(self.folder / "neighbours", np.int32)[entries])]
        if self.weights is not None:
            arrays.append(np.array(mapped(self.folder / "weights")[entries]))
        neighbours, *weights = map(torch.from_numpy, arrays)
        return neighbours, weights[0] if weights else None

    def row_blocks(self) -> Iterator[tuple[int, int]]:
        """Consecutive nodes with about `EDGES` neighbours, or a single one: from, and to before."""
        first = 0
        while first < self.nodes:
            end = int(np.searchsorted(self.starts, self.starts[first] + EDGES, "right")) - 1
            last = min(self.nodes, first + READ, max(first + 1, end))
            yield first, last
            first = last

    def edge_blocks(self) -> Iterator[Any]:
        """All edges as a graph in memory has them: first where each begins, then where it ends."""
        for first, last in self.row_blocks():
            yield np.repeat(np.arange(first, last), np.diff(self.starts[first : last + 1]))
        for first, last in self.row_blocks():
            yield self.around(first, last)[0].long().numpy()

    def stored_product(
        self, name: str, columns: int, source: Source, operators: Sequence[Operator]
    ) -> Stored:
        """A … A H in a folder of the graph, made once, `width` columns of H at a time."""
        shape = torch.zeros(1, 1).expand(self.nodes, columns)
        product = Stored(shape, self.folder / "made" / name, self.width)
        if product.folder.is_dir():
            return product
        staged = product.folder.with_name(f"{name}.part")
        for number, first in enumerate(range(0, columns, self.width)):
            path = staged / str(number)
            if path.exists():
                continue
            chosen = slice(first, min(columns, first + self.width))
            panel = torch.empty(self.nodes, chosen.stop - chosen.start)
            for nodes in torch.arange(self.nodes).split(READ):
                panel[nodes[0] : nodes[-1] + 1] = source(nodes, chosen)
            *inner, last = (part for part in operators if isinstance(part, MappedOperator))
            for operator in inner:
                parts, panel = operator.spread(panel), torch.empty_like(panel)
                for start, end, rows in parts:
                    panel[start:end] = rows
            with atomic.written(path, private=True) as file:
                for _, _, rows in last.spread(panel):
                    file.write(rows.contiguous().numpy().data)
        staged.rename(product.folder)
        return product


@dataclass(frozen=True, eq=False)
class MappedOperator(Operator):
    """diag(l) (A + own · I) diag(r) of a mapped graph; `matrix` is l, (nodes,)."""

    graph: MappedGraph
    name: str
    right: Tensor  # (nodes,)
    own: float = 0.0
    weighted: bool = False  # whether A holds edge weights

    def spread(self, panel: Tensor) -> Iterator[tuple[int, int, Tensor]]:
        """The product with some columns of all nodes, which it overwrites, in blocks of rows."""
        panel *= self.right[:, None]
        for first, last in self.graph.row_blocks():
            neighbours, weights = self.graph.around(first, last)
            starts = self.graph.starts[first : last + 1]
            offsets = torch.from_numpy((starts - starts[0]).astype(np.int32))
            given = weights if self.weighted else None
            rows, *_ = torch.embedding_bag(
                panel, neighbours, offsets, per_sample_weights=given, include_last_offset=True
            )
            if self.own:
                rows += self.own * panel[first:last]
            yield first, last, rows * self.matrix[first:last, None]

    def block(self, nodes: Any) -> Any:
        """Its rows of some nodes, (nodes, all)."""
        starts, counts = self.graph.starts[nodes], np.diff(self.graph.starts)[nodes]
        ends = np.concatenate([[0], np.cumsum(counts)])
        entries = np.repeat(starts - ends[:-1], counts) + np.arange(ends[-1])
        near = np.array(mapped(self.graph.folder / "neighbours", np.int32)[entries])
        values = self.right.numpy()[near] * np.repeat(self.matrix.numpy()[nodes], counts)
        if self.weighted and self.graph.weights is not None:
            values *= mapped(self.graph.folder / "weights")[entries]
        shape = (len(nodes), self.graph.nodes)
        matrix = sparse.csr_array((values, near, ends), shape=shape)
        if not self.own:
            return matrix
        diagonal = self.own * (self.matrix * self.right).numpy()[nodes]
        loops = sparse.csr_array((diagonal, (np.arange(len(nodes)), nodes)), shape=shape)
        return (matrix + loops).tocsr()


@dataclass(frozen=True, eq=False, kw_only=True)
class RowTable(OnDisk):
    """Labels, masks and the rows of some nodes: all that a closed form reads of a graph.

    `x` and `edges` are empty. Where the rows are a sample, `stream` reads them all.
    """

    has_edges: ClassVar[bool] = False

    maps: Mapping[str, Tensor] = field(default_factory=dict)  # by name, each (nodes, columns)
    stream: "Callable[[], Iterator[RowTable]] | None" = None
    counts: Tensor | None = None  # training nodes of each class, of all rows

    @classmethod
    def of(
        cls, y: Tensor, split: Tensor, maps: Mapping[str, Tensor], features: int, **more: Any
    ) -> Self:
        """A table of labels (nodes,) and splits: 0 train, 1 val, 2 test, else none."""
        x, edges = torch.zeros(1, 1).expand(len(y), features), torch.zeros(2, 0).long()
        train, val, test = (split == number for number in range(3))
        return cls(x, edges, y, train, val, test=test, maps=maps, **more)

    def blocks(self) -> "Iterator[RowTable]":
        """All rows, some at a time."""
        return iter([self]) if self.stream is None else self.stream()

    def training_counts(self, classes: int) -> Tensor:
        return super().training_counts(classes) if self.counts is None else self.counts


@dataclass(frozen=True, eq=False, kw_only=True)
class Excerpt(RowTable):
    """Some nodes of a mapped graph, as a graph that a network can be trained and asked on.

    Of nodes that follow each other, `in_stream`, logits are those that were stored for all nodes; of
    others, what their neighbours need is read.
    """

    has_edges = True

    whole: MappedGraph
    places: Tensor
    in_stream: bool = False

    def of_whole(self, nodes: Tensor | None) -> tuple[MappedGraph, Tensor]:
        """The mapped graph, and some of these nodes (a mask; None: all) as a mask of its nodes."""
        mask = torch.zeros(self.whole.nodes, dtype=torch.bool)
        mask[self.places if nodes is None else self.places[nodes]] = True
        return self.whole, mask

    def edge_blocks(self) -> Iterator[Any]:
        return self.whole.edge_blocks()


def digest_of(*parts: object) -> str:
    """A name for what was computed of some tensors and settings."""
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part.numpy().tobytes() if isinstance(part, Tensor) else repr(part).encode())
    return sha.hexdigest()[:16]


def forget_logits(graph: MappedGraph) -> None:
    """Remove what was made for a model; other products are the graph's."""
    for folder in (graph.folder / "made").glob(f"{LOGITS}*"):
        shutil.rmtree(folder)
