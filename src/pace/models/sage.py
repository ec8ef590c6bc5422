"""GraphSAGE: neighbours' mean and the node itself, each with a matrix (Hamilton et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from pace.graph import Graph
from pace.models.base import Drop, Field, Layered, Pass, Rows, identity
from pace.models.initialisation import linear
from pace.models.operator import Operator, Product
from pace.models.propagation import features, neighbour_mean, times_features
from pace.models.reach import Places, chosen, reach
from pace.params import Params


@dataclass(frozen=True, eq=False)
class Neighbourhoods(Field):
    """What the first layer multiplies, and the means between the rows of the others."""

    near: Operator | Product
    """M X, the means of the neighbours' features."""
    features: Operator
    blocks: tuple[Operator, ...]
    own: tuple[Places, ...]


@dataclass(frozen=True)
class SAGE(Layered):
    """H_l+1 = ReLU(M H_l W_n^T + 1 b^T + H_l W_r^T), M the mean over neighbours; PyG's `SAGEConv`."""

    title: ClassVar[str] = "GraphSAGE network"

    def initial(self, generator: torch.Generator | None) -> dict[str, Tensor]:
        params: dict[str, Tensor] = {}
        for layer, (fan_in, fan_out) in enumerate(pairwise(self.widths)):
            params |= linear(f"{layer}.neighbours", fan_in, fan_out, generator)
            params |= linear(f"{layer}.root", fan_in, fan_out, generator, bias=False)
        return params

    def field(self, graph: Graph, centers: Tensor | None = None) -> Neighbourhoods:
        means = neighbour_mean(graph)
        reached = reach(means, self.layers - 1, centers)
        near = graph.derived(
            "neighbours' mean features", lambda graph: times_features(neighbour_mean(graph), graph)
        )
        own, rows = features(graph), reached.rows[0]
        if not isinstance(rows, slice):
            near, own = near.rows(rows), own.rows(rows)
        return Neighbourhoods(reached.centers, near, own, reached.blocks, reached.own)

    def forward(self, params: Params, field: Neighbourhoods, drop: Drop = identity) -> Pass:
        inputs: dict[str, Rows] = {}
        before: dict[str, Rows] = {}
        outputs: list[Tensor] = []
        near: Operator | Product | Tensor = field.near
        root: Operator | Tensor = field.features
        hidden: Operator | Tensor = field.features
        for layer in range(self.layers):
            if layer:
                hidden = drop(outputs[-1].relu())
                near = field.blocks[layer - 1] @ hidden
                root = chosen(hidden, field.own[layer - 1])
            around, own = f"{layer}.neighbours", f"{layer}.root"
            inputs |= {f"{around}.weight": near, f"{own}.weight": root}
            before |= {f"{around}.weight": hidden, f"{own}.weight": root}
            output = near @ params[f"{around}.weight"].t() + params[f"{around}.bias"]
            outputs.append(output + root @ params[f"{own}.weight"].t())
        return Pass(inputs, before, tuple(outputs))
