"""The graph convolutional network (Kipf and Welling, 2017)."""

from dataclasses import dataclass
from typing import ClassVar

from pace.graph import Graph
from pace.models.layers import Layer, Layered, Linear
from pace.models.operator import Operator
from pace.models.propagation import propagation


@dataclass(frozen=True)
class GCN(Layered):
    """H_l+1 = ReLU(P H_l W_l^T + 1 b_l^T), logits last; dropout after each hidden activation.

    Weights are stored (out, in) and the bias is added after propagation, as in PyG.

    Raises:
        SettingError: a width is below 1, or dropout is not in [0, 1).

    Example:
        >>> from pace import GCN
        >>> GCN((1433, 64, 7)).layers
        2
    """

    title: ClassVar[str] = "graph convolutional network"
    reads_weights: ClassVar[bool] = True
    glorot_start: ClassVar[bool] = True

    def layer(self, number: int, fan_in: int, fan_out: int) -> tuple[Layer, ...]:
        return (Layer((Linear(f"{number}", fan_in, fan_out),)),)

    def operator(self, graph: Graph) -> Operator:
        return propagation(graph)
