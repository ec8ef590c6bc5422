"""Graph attention network: neighbours weighted by what they say (Veličković et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn.functional import leaky_relu

from pace.errors import SettingError
from pace.graph import Graph
from pace.models.base import Drop, Field, Later, Layered, Pass, Rows, identity, whole
from pace.models.initialisation import glorot, zeros
from pace.models.operator import Multiply, Operator, csr_array, csr_tensor, multiplier
from pace.models.propagation import features, neighbour_sum
from pace.models.reach import Places, chosen, reach
from pace.params import Params

SLOPE = 0.2  # of the leaky ReLU on scores, PyG's


@dataclass(frozen=True, eq=False)
class Ends:
    """One end of every edge: `gather` gives an edge its node's row, `sum` a node its edges' sum."""

    nodes: Tensor  # (edges,)
    add_up: Multiply  # by (nodes, edges), one where an edge ends at a node

    @classmethod
    def of(cls, nodes: np.ndarray[Any, Any], count: int, device: torch.device) -> Ends:
        order = np.argsort(nodes, kind="stable")
        starts = np.searchsorted(nodes[order], np.arange(count + 1))
        ones = np.ones(len(nodes), dtype=np.float32)
        matrix = sparse.csr_array((ones, order, starts), shape=(count, len(nodes)))
        return cls(
            torch.from_numpy(nodes).long().to(device), multiplier(csr_tensor(matrix).to(device))
        )

    def gather(self, rows: Tensor) -> Tensor:
        edges: Tensor = _Gather.apply(rows, self)  # type: ignore[no-untyped-call]
        return edges

    def sum(self, edges: Tensor) -> Tensor:
        rows: Tensor = _Sum.apply(edges, self)  # type: ignore[no-untyped-call]
        return rows


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, ends: Ends) -> Tensor:
        ctx.ends = ends
        return rows.index_select(0, ends.nodes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.ends.add_up(gradient), None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: Tensor, ends: Ends) -> Tensor:
        ctx.ends = ends
        return ends.add_up(edges)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.index_select(0, ctx.ends.nodes), None


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of one layer, self-loops among them, sorted by target."""

    source: Ends
    target: Ends
    offsets: Tensor  # where each target's edges begin
    own: Places  # where the targets stand among the sources

    @classmethod
    def of(cls, block: Operator, own: Places) -> Edges:
        matrix, device = csr_array(block.matrix), block.matrix.device
        count, width = block.shape
        targets = np.repeat(np.arange(count), np.diff(matrix.indptr))
        return cls(
            Ends.of(matrix.indices, width, device),
            Ends.of(targets, count, device),
            torch.from_numpy(matrix.indptr).long().to(device),
            own,
        )


@dataclass(frozen=True, eq=False)
class Attended(Field):
    """Features of the first layer's sources, and the edges of each layer."""

    features: Operator
    edges: tuple[Edges, ...]


@dataclass(frozen=True)
class GAT(Layered):
    """H_l+1 = ReLU(‖_h A_h H_l W_h^T + 1 b^T): each head h has attention A_h; PyG's `GATConv`.

        A_h[i, j] = softmax over j in N(i) ∪ {i} of LeakyReLU(u_h · W_h x_j + v_h · W_h x_i)

    A hidden layer's heads stand side by side and share its width; the last layer's are averaged. The
    heads' matrices are one weight, whose rows are the attention-weighted sums A_h H of every head;
    u and v multiply no rows and are averaged.
    """

    title: ClassVar[str] = "graph attention network"

    heads: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("heads", self.heads, 1)
        if odd := [width for width in self.widths[1:-1] if width % self.heads]:
            raise SettingError(
                f"a hidden layer is {odd[0]} wide, expected a multiple of {self.heads}, the number "
                "of heads"
            )

    def channels(self, layer: int) -> int:
        """The width of one head."""
        width = self.widths[layer + 1]
        return width if layer + 1 == self.layers else width // self.heads

    @property
    def averaged(self) -> tuple[str, ...]:
        return tuple(name for name in self.shapes if not name.endswith(".weight"))

    def initial(self, generator: torch.Generator | None) -> dict[str, Tensor]:
        params: dict[str, Tensor] = {}
        for layer, (fan_in, fan_out) in enumerate(pairwise(self.widths)):
            wide = self.channels(layer)
            params[f"{layer}.weight"] = glorot((self.heads * wide, fan_in), generator)
            params[f"{layer}.attention.source"] = glorot((1, self.heads, wide), generator)
            params[f"{layer}.attention.target"] = glorot((1, self.heads, wide), generator)
            params[f"{layer}.bias"] = zeros(fan_out, generator)
        return params

    def field(self, graph: Graph, centers: Tensor | None = None) -> Attended:
        reached = reach(neighbour_sum(graph, 1.0), self.layers, centers)
        known: dict[int, Edges] = {}
        for block, own in zip(reached.blocks, reached.own, strict=True):
            known.setdefault(id(block), Edges.of(block, own))
        first, everything = reached.rows[0], features(graph)
        return Attended(
            reached.centers[1:],
            everything if isinstance(first, slice) else everything.rows(first),
            tuple(known[id(block)] for block in reached.blocks),
        )

    def forward(self, params: Params, field: Attended, drop: Drop = identity) -> Pass:
        inputs: dict[str, Rows] = {}
        before: dict[str, Rows] = {}
        outputs: list[Tensor] = []
        hidden: Operator | Tensor = field.features
        for layer, edges in enumerate(field.edges):
            if layer:
                hidden = drop(outputs[-1].relu())
            projected = hidden @ params[f"{layer}.weight"].t()
            weights, total = self.attention(params, projected, edges, layer)
            said = edges.source.gather(projected).view(-1, self.heads, self.channels(layer))
            heads = edges.target.sum((weights[:, :, None] * said).flatten(1))
            heads = heads.view(-1, self.heads, self.channels(layer)) / total[:, :, None]
            joined = heads.mean(1) if layer + 1 == self.layers else heads.flatten(1)
            outputs.append(joined + params[f"{layer}.bias"])
            before[f"{layer}.weight"] = hidden
            inputs[f"{layer}.weight"] = Later(_AttendedRows(hidden, weights, total, edges))
        return Pass(inputs, before, tuple(outputs))

    def attention(
        self, params: Params, projected: Tensor, edges: Edges, layer: int
    ) -> tuple[Tensor, Tensor]:
        """Of every edge and head e^score, and of every target their sum: their ratio is A_h."""
        split = projected.view(-1, self.heads, self.channels(layer))
        from_source = (split * params[f"{layer}.attention.source"]).sum(2)
        from_target = (split * params[f"{layer}.attention.target"]).sum(2)
        scores = leaky_relu(
            edges.source.gather(from_source) + edges.target.gather(chosen(from_target, edges.own)),
            SLOPE,
        )
        with torch.no_grad():  # a softmax does not change if all scores of a target are shifted
            peaks = torch.segment_reduce(scores.detach(), "max", offsets=edges.offsets)
            peaks = peaks.index_select(0, edges.target.nodes)
        weights = (scores - peaks).exp()
        return weights, edges.target.sum(weights)


@dataclass(frozen=True, eq=False)
class _AttendedRows:
    """Σ_j A_h[i, j] x_j of chosen nodes i: (nodes, heads, columns)."""

    hidden: Operator | Tensor
    weights: Tensor
    total: Tensor
    edges: Edges

    def __call__(self, nodes: Tensor) -> Tensor:
        shares = (self.weights / self.total.index_select(0, self.edges.target.nodes)).detach()
        rows = self.hidden.matrix if isinstance(self.hidden, Operator) else self.hidden.detach()
        dense = rows.layout == torch.strided
        columns = rows.cpu().numpy() if dense else csr_array(rows)
        places = (self.edges.source.nodes.cpu().numpy(), self.edges.offsets.cpu().numpy())
        shape = (len(self.total), rows.shape[0])
        sums = []
        for head in shares.cpu().numpy().T:
            part = sparse.csr_array((head.copy(), *places), shape=shape)[nodes.cpu().numpy()]
            product: Any = part @ columns
            sums.append(torch.from_numpy(product if dense else product.toarray()))
        return torch.stack(sums, 1).to(rows.device)
