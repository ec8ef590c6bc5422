"""Simple graph convolution: a linear model on features propagated some hops (Wu et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pace.errors import SettingError
from pace.graph import Graph
from pace.models.layers import Layer, Layered, Linear, whole
from pace.models.operator import Operator
from pace.models.propagation import dense_or_sparse, propagation


@dataclass(frozen=True)
class SGC(Layered):
    """logits = P^K X W^T + 1 b^T, with K `hops`; PyG's `SGConv`."""

    title: ClassVar[str] = "simple graph convolution"
    reads_weights: ClassVar[bool] = True
    hidden_layers: ClassVar[bool] = False

    hops: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("hops", self.hops, 0)
        if len(self.widths) != 2:
            raise SettingError(
                f"widths are {self.widths}: an sgc has no hidden layer, give features and classes"
            )

    @classmethod
    def sized(cls, features: int, hidden: int, layers: int, classes: int, **settings: Any) -> Self:
        """`layers` are hops; there is no hidden layer."""
        return cls((features, classes), **{"hops": layers, **settings})

    def layer(self, number: int, fan_in: int, fan_out: int) -> tuple[Layer, ...]:
        return (Layer((Linear(f"{number}.hops", fan_in, fan_out),)),)

    def first(self, graph: Graph) -> Operator:
        """P^K X, multiplied out: training multiplies by it at every step."""
        return graph.derived(f"features after {self.hops} hops", self._propagated)

    def _propagated(self, graph: Graph) -> Operator:
        rows = graph.x
        for _ in range(self.hops):
            rows = propagation(graph) @ rows
        return dense_or_sparse(graph, rows)
