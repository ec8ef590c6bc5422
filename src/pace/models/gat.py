"""Graph attention network: neighbours weighted by what they say (Veličković et al., 2018)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn.functional import leaky_relu

from pace.errors import SettingError
from pace.graph import Graph
from pace.models import propagation as travel
from pace.models.base import Drop, Field, Later, Pass, Rows, identity
from pace.models.layers import Layered, glorot, uniform
from pace.models.operator import Operator, csr_array, csr_tensor, linear_map, multiplier
from pace.params import Params

SLOPE = 0.2  # of the leaky ReLU on scores, PyG's


@dataclass(frozen=True, eq=False)
class Ends:
    """One end of every edge: `gather` gives an edge its node's row, `sum` a node its edges' sum."""

    nodes: Tensor  # (edges,)
    add_up: Callable[[Tensor], Tensor]  # times (nodes, edges), one where an edge ends at a node

    @classmethod
    def of(cls, nodes: Any, count: int, device: torch.device) -> "Ends":
        ones, edges = np.ones(len(nodes), dtype=np.float32), np.arange(len(nodes))
        matrix = sparse.csr_array((ones, (nodes, edges)), shape=(count, len(nodes)))
        ends = torch.from_numpy(nodes).long().to(device)
        return cls(ends, multiplier(csr_tensor(matrix).to(device)))

    def gather(self, rows: Tensor) -> Tensor:
        return linear_map(rows, self._select, self.add_up)

    def sum(self, edges: Tensor) -> Tensor:
        return linear_map(edges, self.add_up, self._select)

    def _select(self, rows: Tensor) -> Tensor:
        return rows.index_select(0, self.nodes)


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of one layer, self-loops among them."""

    source: Ends
    target: Ends
    offsets: Tensor | None  # where each target's edges begin; None where they are in any order
    own: travel.Places  # where the targets are among the sources

    @classmethod
    def of(cls, block: Operator, own: travel.Places) -> "Edges":
        count, width = block.shape
        if isinstance(block, travel.Entries):
            source, target = (
                Ends(nodes, partial(travel.added_up, targets=nodes, nodes=count))
                for nodes in (block.columns_of, block.rows_of)
            )
            return cls(source, target, None, own)
        matrix, device = csr_array(block.matrix), block.matrix.device
        targets = np.repeat(np.arange(count), np.diff(matrix.indptr))
        source, target = Ends.of(matrix.indices, width, device), Ends.of(targets, count, device)
        return cls(source, target, torch.from_numpy(matrix.indptr).long().to(device), own)

    def peaks(self, scores: Tensor, nodes: int) -> Tensor:
        """The largest score of each target."""
        if self.offsets is not None:
            return torch.segment_reduce(scores, "max", offsets=self.offsets)
        lowest = scores.new_full((nodes, scores.shape[1]), -torch.inf)
        ends = self.target.nodes[:, None].expand_as(scores)
        return lowest.scatter_reduce(0, ends, scores, "amax")


@dataclass(frozen=True)
class GAT(Layered):
    """H_l+1 = ReLU(‖_h A_h H_l W_h^T + 1 b^T): each head h has attention A_h; PyG's `GATConv`.

        A_h[i, j] = softmax over j in N(i) ∪ {i} of LeakyReLU(u_h · W_h x_j + v_h · W_h x_i)

    A hidden layer's heads are side by side and share its width; the last layer's are averaged. The
    heads' matrices are one weight, whose rows are the attention-weighted sums A_h H of every head;
    u and v multiply no rows and are averaged.
    """

    title: ClassVar[str] = "graph attention network"
    limits: ClassVar[Mapping[str, tuple[float, ...]]] = {"heads": (1,)}

    heads: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if odd := [width for width in self.widths[1:-1] if width % self.heads]:
            raise SettingError(
                f"a hidden layer is {odd[0]} wide, expected a multiple of {self.heads}, its heads"
            )

    def channels(self, layer: int) -> int:
        """The width of one head."""
        width = self.widths[layer + 1]
        return width if layer + 1 == self.layers else width // self.heads

    def initial(self, generator: torch.Generator | None) -> dict[str, Tensor]:
        params: dict[str, Tensor] = {}
        for layer, (fan_in, fan_out) in enumerate(pairwise(self.widths)):
            wide = self.channels(layer)
            params[f"{layer}.weight"] = glorot((self.heads * wide, fan_in), generator)
            params[f"{layer}.attention.source"] = glorot((1, self.heads, wide), generator)
            params[f"{layer}.attention.target"] = glorot((1, self.heads, wide), generator)
            params[f"{layer}.bias"] = uniform((fan_out,), 0.0, generator)
        return params

    def field(self, graph: Graph, centers: Tensor | None = None) -> Field:
        """The operators are the features of the first layer's sources, then the edges of each layer."""
        reached = travel.reach(travel.neighbour_sum(graph, 1.0), graph, self.layers, centers)
        pairs = zip(reached.blocks, reached.own, strict=True)
        edges = {id(block): Edges.of(block, own) for block, own in pairs}
        layers = (edges[id(block)] for block in reached.blocks)
        sources = travel.at(travel.features(graph), reached.rows[0])
        return Field(reached.centers[1:], (sources, *layers))

    def forward(self, params: Params, field: Field, drop: Drop = identity) -> Pass:
        inputs, unpropagated = dict[str, Rows](), dict[str, Rows]()
        outputs: list[Tensor] = []
        hidden: Operator | Tensor
        hidden, *by_layer = field.operators
        for layer, edges in enumerate(by_layer):
            if layer:
                hidden = drop(outputs[-1].relu())
            projected = hidden @ params[f"{layer}.weight"].t()
            weights, total = self.attention(params, projected, edges, layer)
            split = (-1, self.heads, self.channels(layer))
            messages = edges.source.gather(projected).view(split)
            heads = edges.target.sum((weights[:, :, None] * messages).flatten(1))
            heads = heads.view(split) / total[:, :, None]
            joined = heads.mean(1) if layer + 1 == self.layers else heads.flatten(1)
            outputs.append(joined + params[f"{layer}.bias"])
            unpropagated[f"{layer}.weight"] = hidden
            inputs[f"{layer}.weight"] = Later(partial(attended_rows, hidden, weights, total, edges))
        return Pass(inputs, unpropagated, tuple(outputs))

    def attention(
        self, params: Params, projected: Tensor, edges: Edges, layer: int
    ) -> tuple[Tensor, Tensor]:
        """Of every edge and head e^score, and of every target their sum: their ratio is A_h."""
        split = projected.view(-1, self.heads, self.channels(layer))
        from_source = (split * params[f"{layer}.attention.source"]).sum(2)
        from_target = (split * params[f"{layer}.attention.target"]).sum(2)
        at_targets = travel.chosen(from_target, edges.own)
        sums = edges.source.gather(from_source) + edges.target.gather(at_targets)
        scores = leaky_relu(sums, SLOPE)
        with torch.no_grad():  # a softmax does not change if all scores of a target are shifted
            peaks = edges.peaks(scores.detach(), at_targets.shape[0])
            peaks = peaks.index_select(0, edges.target.nodes)
        weights = (scores - peaks).exp()
        return weights, edges.target.sum(weights)


def attended_rows(
    hidden: Operator | Tensor, weights: Tensor, total: Tensor, edges: Edges, nodes: Tensor
) -> Tensor:
    """Σ_j A_h[i, j] x_j of chosen nodes i: (nodes, heads, columns)."""
    shares = (weights / total.index_select(0, edges.target.nodes)).detach()
    rows = hidden.matrix if isinstance(hidden, Operator) else hidden.detach()
    dense = rows.layout == torch.strided
    columns = rows.cpu().numpy() if dense else csr_array(rows)
    assert edges.offsets is not None
    places = (edges.source.nodes.cpu().numpy(), edges.offsets.cpu().numpy())
    sums = []
    for head in shares.cpu().numpy().T:
        matrix = sparse.csr_array((head.copy(), *places), shape=(len(total), rows.shape[0]))
        product: Any = matrix[nodes.cpu().numpy()] @ columns
        sums.append(torch.from_numpy(product if dense else product.toarray()))
    return torch.stack(sums, 1).to(rows.device)
