"""Graph isomorphism network: a perceptron on the sum over neighbours (Xu et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pace.graph import Graph
from pace.models.layers import Layer, Layered, Linear, real
from pace.models.operator import Operator
from pace.models.propagation import neighbour_sum


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

    def layer(self, number: int, fan_in: int, fan_out: int) -> tuple[Layer, ...]:
        inside = fan_in if 0 < number == self.layers - 1 else fan_out
        lower = Linear(f"{number}.mlp.0", fan_in, inside)
        upper = Linear(f"{number}.mlp.1", inside, fan_out, travels=False)
        return (Layer((lower,), inner=True), Layer((upper,)))

    def operator(self, graph: Graph) -> Operator:
        return neighbour_sum(graph, 1 + self.epsilon)
