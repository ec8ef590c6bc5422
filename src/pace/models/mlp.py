"""A perceptron that looks at no edge: what the edges are worth is what the others gain over it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from pace.graph import Graph
from pace.models.base import Drop, Field, Layered, Pass, Rows, identity
from pace.models.initialisation import linear
from pace.models.operator import Operator
from pace.models.propagation import features
from pace.params import Params

LINEAR = "linear"


@dataclass(frozen=True, eq=False)
class Centres(Field):
    """The features of the centres, which is all a perceptron reads."""

    features: Operator


@dataclass(frozen=True)
class MLP(Layered):
    """H_l+1 = ReLU(H_l W_l^T + 1 b_l^T), logits last; PyG's `MLP` without normalisation."""

    title: ClassVar[str] = "perceptron that reads no edge"
    reads_weights: ClassVar[bool] = True  # it reads no edge at all

    def initial(self, generator: torch.Generator | None) -> dict[str, Tensor]:
        return perceptron(self.widths, generator, LINEAR)

    def field(self, graph: Graph, centers: Tensor | None = None) -> Centres:
        everything = features(graph)
        rows = everything if centers is None else everything.rows(centers)
        among = torch.arange(rows.shape[0], device=graph.x.device)
        return Centres((among,) * self.layers, rows)

    def forward(self, params: Params, field: Centres, drop: Drop = identity) -> Pass:
        inputs, outputs = layer_by_layer(params, field.features, self.layers, drop, LINEAR)
        return Pass(inputs, inputs, outputs)


def perceptron(
    widths: tuple[int, ...], generator: torch.Generator | None, name: str
) -> dict[str, Tensor]:
    """Linear layers as torch starts them, numbered; `name` tells models apart by their tensors."""
    params: dict[str, Tensor] = {}
    for layer, (fan_in, fan_out) in enumerate(pairwise(widths)):
        params |= linear(f"{layer}.{name}", fan_in, fan_out, generator)
    return params


def layer_by_layer(
    params: Params, first: Operator, layers: int, drop: Drop, name: str
) -> tuple[dict[str, Rows], tuple[Tensor, ...]]:
    """The rows that each weight multiplies, and each layer's output before its activation."""
    inputs: dict[str, Rows] = {}
    outputs: list[Tensor] = []
    rows: Operator | Tensor = first
    for layer in range(layers):
        if layer:
            rows = drop(outputs[-1].relu())
        weight = f"{layer}.{name}.weight"
        inputs[weight] = rows
        outputs.append(rows @ params[weight].t() + params[f"{layer}.{name}.bias"])
    return inputs, tuple(outputs)
