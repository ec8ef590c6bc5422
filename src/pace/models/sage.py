"""GraphSAGE: neighbours' mean and the node itself, each with a matrix (Hamilton et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pace.graph import Graph
from pace.models.layers import Layer, Layered, Linear
from pace.models.operator import Operator
from pace.models.propagation import neighbour_mean


@dataclass(frozen=True)
class SAGE(Layered):
    """H_l+1 = ReLU(M H_l W_n^T + 1 b^T + H_l W_r^T), M the mean over neighbours; PyG's `SAGEConv`."""

    title: ClassVar[str] = "GraphSAGE network"

    def layer(self, number: int, fan_in: int, fan_out: int) -> tuple[Layer, ...]:
        neighbours = Linear(f"{number}.neighbours", fan_in, fan_out)
        root = Linear(f"{number}.root", fan_in, fan_out, travels=False, bias=False)
        return (Layer((neighbours, root)),)

    def operator(self, graph: Graph) -> Operator:
        return neighbour_mean(graph)
