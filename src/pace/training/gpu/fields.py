"""The receptive fields of many clients, found at once and where they will be used.

The clients' graphs stand side by side as one graph without edges between them. On a GPU a few dozen
kernels then do for all clients what a CPU does in milliseconds for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from pace.graph import Graph
from pace.training.gpu.blocks import Blocks, Chain, Sparse, Split, own_kernels

PIECE = 2**24  # bytes
SPARSE_BELOW = 0.04  # share of non-zeros under which products by rows beat dense ones on a GPU


@dataclass(frozen=True, eq=False)
class Fields:
    """What a pass must know of the clients' graphs to give the logits of some of their nodes."""

    operators: tuple[Blocks | Chain, ...]  # P X at rows R_1, then P between rows R_l and R_l+1
    rows: tuple[Tensor, ...]  # how many rows each client has in R_1, ..., R_L: (clients,) each


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
    graphs: Sequence[Graph],
    layers: int,
    scale: float,
    device: torch.device | str,
    centers: Sequence[Tensor] | None = None,
) -> Fields:
    """The fields of every client's training nodes, or of its `centers` (masks).

    `scale` multiplies P above the first layer.
    """
    clients, nodes = len(graphs), [graph.nodes for graph in graphs]
    client = torch.arange(clients, device=device).repeat_interleave(
        torch.tensor(nodes, device=device), output_size=sum(nodes)
    )
    source, target, weights = propagation(graphs, device)
    masks = [graph.train for graph in graphs] if centers is None else centers
    goal = torch.cat(list(masks)).to(device)
    rows = [Rows(goal, client, clients)]
    blocks: list[Sparse] = []
    for _ in range(layers):
        upper = rows[0]
        read = upper.chosen[target]
        reached = torch.zeros_like(upper.chosen)
        reached[source[read]] = True
        lower = Rows(reached, client, clients)
        shape = (clients * upper.height, clients * lower.height)
        entries = (upper.place[target[read]], lower.place[source[read]], weights[read])
        blocks.insert(0, Sparse.of(*entries, shape))
        rows.insert(0, lower)
    above = tuple(Blocks(block.times(scale), clients) for block in blocks[1:])
    first = messages(blocks[0], rows[0], graphs, device)
    return Fields((first, *above), tuple(each.counts for each in rows[1:]))


def propagation(
    graphs: Sequence[Graph], device: torch.device | str
) -> tuple[Tensor, Tensor, Tensor]:
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


def messages(
    spread: Sparse, read: Rows, graphs: Sequence[Graph], device: torch.device | str
) -> Blocks | Chain:
    """P X: in its two sparse factors if they have few entries, else multiplied out and dense."""
    clients, width = len(graphs), graphs[0].features
    x = torch.empty(len(read.client), width, device=device)
    for part, graph in zip(x.split([graph.nodes for graph in graphs]), graphs, strict=True):
        send(graph.x, part)
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
    fast = x.is_cuda and own_kernels("cuda") is not None
    return Blocks(Split.of(product) if fast else product, clients)


def send(rows: Tensor, out: Tensor) -> None:
    """Copy rows to a GPU through pinned memory, piece by piece: the driver's own way is slower."""
    if not out.is_cuda or rows.is_cuda:
        out.copy_(rows)
        return
    piece = max(1, PIECE // max(1, 4 * rows.shape[1]))
    for source, target in zip(rows.split(piece), out.split(piece), strict=True):
        pinned = torch.empty(source.shape, pin_memory=True)
        target.copy_(pinned.copy_(source), non_blocking=True)
