"""Simple graph convolution: a linear model on features propagated some hops (Wu et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from pace.errors import SettingError
from pace.graph import Graph
from pace.models.base import Drop, Field, Layered, Pass, identity, whole
from pace.models.initialisation import linear
from pace.models.operator import Operator
from pace.models.propagation import features, propagation
from pace.params import Params


@dataclass(frozen=True, eq=False)
class Hops(Field):
    """P^K X, all that training multiplies by, and X."""

    propagated: Operator
    features: Operator


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

    def initial(self, generator: torch.Generator | None) -> dict[str, Tensor]:
        return linear("0.hops", self.features, self.classes, generator)

    def field(self, graph: Graph, centers: Tensor | None = None) -> Hops:
        rows = features(graph)
        far = graph.derived(f"features after {self.hops} hops", self._propagated)
        if centers is not None:
            rows, far = rows.rows(centers), far.rows(centers)
        return Hops((torch.arange(far.shape[0], device=graph.x.device),), far, rows)

    def forward(self, params: Params, field: Hops, drop: Drop = identity) -> Pass:
        logits = field.propagated @ params["0.hops.weight"].t() + params["0.hops.bias"]
        return Pass(
            {"0.hops.weight": field.propagated}, {"0.hops.weight": field.features}, (logits,)
        )

    def _propagated(self, graph: Graph) -> Operator:
        """P^K X: each step multiplies by it once, so it is multiplied out."""
        rows = graph.x
        for _ in range(self.hops):
            rows = propagation(graph) @ rows
        return Operator.of(rows.cpu()).to(graph.x.device)
