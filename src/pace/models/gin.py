"""Graph isomorphism network: a perceptron on the sum over neighbours (Xu et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from pace.graph import Graph
from pace.models.base import Drop, Field, Layered, Pass, Rows, identity, real
from pace.models.initialisation import linear
from pace.models.operator import Operator, Product
from pace.models.propagation import features, neighbour_sum, times_features
from pace.models.reach import reach
from pace.params import Params


@dataclass(frozen=True, eq=False)
class Sums(Field):
    """What the first layer multiplies, X before it was summed, and the sums between later rows."""

    first: Operator | Product
    features: Operator
    blocks: tuple[Operator, ...]


@dataclass(frozen=True)
class GIN(Layered):
    """H_l+1 = ReLU(MLP_l(((1 + ε) I + A) H_l)), MLP(s) = ReLU(s W_0^T + b_0) W_1^T + b_1.

    PyG's `GINConv` with ε fixed. A layer's perceptron is as wide inside as the layer's output; the
    last one's is as wide as its input, since few classes would be a bottleneck.
    """

    title: ClassVar[str] = "graph isomorphism network"

    epsilon: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        real("epsilon", self.epsilon, -1e3, 1e3)

    def initial(self, generator: torch.Generator | None) -> dict[str, Tensor]:
        params: dict[str, Tensor] = {}
        last = self.layers - 1
        for layer, (fan_in, fan_out) in enumerate(pairwise(self.widths)):
            inside = fan_in if layer == last and last else fan_out
            params |= linear(f"{layer}.mlp.0", fan_in, inside, generator)
            params |= linear(f"{layer}.mlp.1", inside, fan_out, generator)
        return params

    def field(self, graph: Graph, centers: Tensor | None = None) -> Sums:
        own = 1 + self.epsilon
        reached = reach(neighbour_sum(graph, own), self.layers - 1, centers)
        first = graph.derived(
            f"neighbours' summed features {own}",
            lambda graph: times_features(neighbour_sum(graph, own), graph),
        )
        rows = reached.rows[0]
        at_rows = first if isinstance(rows, slice) else first.rows(rows)
        return Sums(reached.centers, at_rows, features(graph), reached.blocks)

    def forward(self, params: Params, field: Sums, drop: Drop = identity) -> Pass:
        inputs: dict[str, Rows] = {}
        before: dict[str, Rows] = {}
        outputs: list[Tensor] = []
        rows: Operator | Product | Tensor = field.first
        hidden: Operator | Tensor = field.features
        for layer in range(self.layers):
            if layer:
                hidden = drop(outputs[-1].relu())
                rows = field.blocks[layer - 1] @ hidden
            lower, upper = f"{layer}.mlp.0", f"{layer}.mlp.1"
            inside = (rows @ params[f"{lower}.weight"].t() + params[f"{lower}.bias"]).relu()
            inputs |= {f"{lower}.weight": rows, f"{upper}.weight": inside}
            before |= {f"{lower}.weight": hidden, f"{upper}.weight": inside}
            outputs.append(inside @ params[f"{upper}.weight"].t() + params[f"{upper}.bias"])
        return Pass(inputs, before, tuple(outputs))
