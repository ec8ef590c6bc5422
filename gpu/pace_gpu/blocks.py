"""The constants of many clients as one operator, padded with zeros to the largest of them.

It acts on tensors (clients, seeds, rows, width). Padding meets only zeros, so no client sees another.
The clients' graphs are laid side by side as one graph without edges between them: on a GPU a few dozen
kernels find all receptive fields, which takes a CPU milliseconds for each.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, pad

from pace.graph import Graph

Device = torch.device | str
SPARSE_BELOW = 0.04  # share of non-zeros under which products by rows beat dense ones on a GPU


@cache
def own_kernels(device: str) -> ModuleType | None:
    """`pace_gpu.kernels` where Triton can compile them, or is told to interpret them."""
    modern = device == "cuda" and torch.cuda.get_device_capability() >= (8, 0)  # has bfloat16
    wanted = modern or os.environ.get("TRITON_INTERPRET") == "1"
    if not wanted or find_spec("triton") is None:
        return None
    from pace_gpu import kernels

    return kernels


@dataclass(frozen=True, eq=False)
class Sparse:
    """A matrix by its rows (CSR), wherever it is: each row of a product is summed in one order."""

    starts: Tensor  # (rows + 1,) where the entries of each row begin
    columns: Tensor  # (entries,)
    values: Tensor  # (entries,)
    shape: tuple[int, int]

    @classmethod
    def of(cls, rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Sparse:
        """From entries in order of their rows."""
        narrow = torch.int32 if max(len(values), *shape) < 2**31 else torch.int64
        starts = torch.zeros(shape[0] + 1, dtype=narrow, device=values.device)
        starts[1:] = torch.bincount(rows, minlength=shape[0]).cumsum(0)
        return cls(starts, columns.to(narrow), values, shape)

    @property
    def lengths(self) -> Tensor:
        return self.starts.diff()

    @cached_property
    def order(self) -> Tensor:
        """The rows, longest first, so that none is left to the end."""
        return self.lengths.argsort(descending=True, stable=True).to(self.starts.dtype)

    @cached_property
    def filled(self) -> int:
        """How many rows have entries."""
        return int(self.lengths.count_nonzero())

    @cached_property
    def transposed(self) -> Sparse:
        order = self.columns.argsort(stable=True)
        rows, columns = self.columns[order], torch.repeat_interleave(self.lengths)[order]
        return Sparse.of(rows, columns, self.values[order], (self.shape[1], self.shape[0]))

    def __matmul__(self, dense: Tensor) -> Tensor:
        """The product with (columns, width)."""
        dense = dense.contiguous()
        kernels: Any = own_kernels(dense.device.type)
        if kernels is not None:
            product: Tensor = kernels.rows(self, dense)
            return product
        # cuSPARSE is faster, but its sums vary from run to run.
        how: dict[str, Any] = {"mode": "sum", "include_last_offset": True}
        return embedding_bag(
            self.columns, dense, self.starts, per_sample_weights=self.values, **how
        )


@dataclass(frozen=True, eq=False)
class Blocks:
    """A_1, ..., A_K, each acting on its own client."""

    # (K, rows, columns), or (K rows, K columns) with the A_k on the diagonal; for tensor cores
    # (3, K, rows, columns padded to a multiple of 16): three bfloat16 parts hold what a float32 does
    matrix: Tensor | Sparse
    clients: int
    columns: int = 0  # of a matrix in parts

    def __matmul__(self, dense: Tensor) -> Tensor:
        """A_k H_k."""
        return apart(self._product(beside(dense), transposed=False), dense.shape[1])

    def back(self, gradient: Tensor, out: Tensor | None = None) -> Tensor:
        """A_k^T G_k, written to `out` if it is given."""
        # A view, if `out` lies so that one product serves all seeds.
        flat = None if out is None else beside(out)
        product = self._product(beside(gradient), flat, transposed=True)
        return apart(product, gradient.shape[1]) if out is None else out

    def _product(self, dense: Tensor, out: Tensor | None = None, *, transposed: bool) -> Tensor:
        """For (K, rows, seeds × width)."""
        if self.columns:
            kernels: Any = own_kernels(dense.device.type)
            exact: Tensor = kernels.product(self.matrix, self.columns, dense, out, transposed)
            return exact
        if isinstance(self.matrix, Tensor):
            return torch.bmm(self.matrix.mT if transposed else self.matrix, dense, out=out)
        matrix = self.matrix.transposed if transposed else self.matrix
        product = (matrix @ dense.flatten(0, 1)).unflatten(0, (self.clients, -1))
        return product if out is None else out.copy_(product)


@dataclass(frozen=True, eq=False)
class Chain:
    """A_k B_k, applied one after the other."""

    left: Blocks
    right: Blocks

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self.left @ (self.right @ dense)

    def back(self, gradient: Tensor, out: Tensor | None = None) -> Tensor:
        return self.right.back(self.left.back(gradient), out)


def beside(dense: Tensor) -> Tensor:
    """(clients, seeds, rows, width) with the seeds of a row next to each other: one product for all."""
    return dense.transpose(1, 2).flatten(2)


def apart(product: Tensor, seeds: int) -> Tensor:
    """The same back, by seeds."""
    clients, rows, _ = product.shape
    return product.view(clients, rows, seeds, -1).transpose(1, 2)


@dataclass(frozen=True, eq=False)
class Rows:
    """Some nodes of every client, and where they lie among rows padded to the most of one client."""

    chosen: Tensor  # (nodes,) bool
    client: Tensor  # (nodes,) whose node it is
    clients: int

    @cached_property
    def counts(self) -> Tensor:
        """How many are chosen of each client."""
        return torch.bincount(self.client[self.chosen], minlength=self.clients)

    @cached_property
    def height(self) -> int:
        return int(self.counts.max())

    @cached_property
    def place(self) -> Tensor:
        """The row of each chosen node."""
        before = self.counts.cumsum(0) - self.counts
        rank = self.chosen.cumsum(0) - 1
        return self.client * self.height + rank - before[self.client]


def fields(
    graphs: Sequence[Graph], layers: int, scale: float, device: Device, *, whole: bool = False
) -> tuple[tuple[Blocks | Chain, ...], tuple[Tensor, ...]]:
    """What gives the logits of every client's training nodes, or of its whole graph.

    Returns:
        P X at rows R_1, then P between rows R_l and R_l+1, times `scale`; and how many rows each
        client has in R_1, ..., R_L, (clients,) each.
    """
    clients, nodes = len(graphs), [graph.nodes for graph in graphs]
    client = torch.arange(clients, device=device).repeat_interleave(
        torch.tensor(nodes, device=device), output_size=sum(nodes)
    )
    source, target, weights = _propagation(graphs, device)
    centers = torch.cat([graph.train | whole for graph in graphs])
    rows = [Rows(centers.to(device), client, clients)]
    blocks: list[Sparse] = []
    for layer in range(layers, 0, -1):
        upper = rows[0]
        read = upper.chosen[target]
        reached = torch.zeros_like(upper.chosen)
        reached[source[read]] = True
        lower = Rows(reached, client, clients)
        shape = (clients * upper.height, clients * lower.height)
        values = weights[read] if layer == 1 else weights[read] * scale
        entries = (upper.place[target[read]], lower.place[source[read]], values)
        blocks.insert(0, Sparse.of(*entries, shape))
        rows.insert(0, lower)
    first = _messages(blocks[0], rows[0], graphs)
    above = (Blocks(block, clients) for block in blocks[1:])
    return (first, *above), tuple(row.counts for row in rows[1:])


def _propagation(graphs: Sequence[Graph], device: Device) -> tuple[Tensor, Tensor, Tensor]:
    """P of all clients: sources, targets and weights of its entries, in order of targets."""
    first, shifted = 0, []
    for graph in graphs:
        shifted.append(graph.edges + first)
        first += graph.nodes
    loops = torch.arange(first, device=device)
    source, target = torch.cat([torch.cat(shifted, 1).to(device), loops.expand(2, -1)], 1)
    source, order = torch.sort(source)
    by_target = torch.sort(target[order], stable=True)
    source, target = source[by_target.indices], by_target.values
    degree = torch.bincount(target, minlength=first).float().sqrt().reciprocal()
    return source, target, degree[source] * degree[target]


def _messages(spread: Sparse, read: Rows, graphs: Sequence[Graph]) -> Blocks | Chain:
    """P X: in its two sparse factors if they have few entries, else multiplied out and dense."""
    clients, width = len(graphs), graphs[0].features
    x = torch.empty(len(read.client), width, device=read.client.device)
    for part, graph in zip(x.split([graph.nodes for graph in graphs]), graphs, strict=True):
        part.copy_(graph.x)
    x, place = x[read.chosen], read.place[read.chosen]
    entries = len(spread.values) + int(x.count_nonzero())
    if entries < SPARSE_BELOW * spread.shape[0] * width:
        row, column = x.nonzero(as_tuple=True)
        shape = (spread.shape[1], clients * width)
        owner = read.client[read.chosen][row]
        right = Sparse.of(place[row], owner * width + column, x[row, column], shape)
        return Chain(Blocks(spread, clients), Blocks(right, clients))
    padded = x.new_zeros(spread.shape[1], width)
    padded[place] = x
    product = (spread @ padded).unflatten(0, (clients, -1))
    kernels: Any = own_kernels("cuda") if x.is_cuda else None
    if kernels is None:
        return Blocks(product, clients)
    return Blocks(kernels.split(pad(product, (0, -width % 16))), clients, width)
