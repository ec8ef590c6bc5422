"""A perceptron whose predictions travel by personalised PageRank (Gasteiger et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from pace.graph import Graph
from pace.models.base import Drop, Field, Later, Pass, identity
from pace.models.layers import Layer, Layered, Linear, at, real, whole
from pace.models.operator import Operator
from pace.models.propagation import features, propagation
from pace.models.reach import Places, chosen, reach
from pace.params import Params


@dataclass(frozen=True, eq=False, kw_only=True)
class Walk(Field):
    """Features where a walk may come from, and each of its steps."""

    steps: tuple[Operator, ...]
    """(1 - α) P from one row set to the next."""
    own: tuple[Places, ...]
    """Where the rows of each step stand among the first."""


@dataclass(frozen=True)
class APPNP(Layered):
    """Z = Π MLP(X): Z_0 = H,  Z_k+1 = (1 - α) P Z_k + α H; `hops` steps of PyG's `APPNP`.

    Π is linear, so the last weight multiplies Π H; the layers below it read no edge.
    """

    title: ClassVar[str] = "perceptron with personalised PageRank (APPNP)"
    reads_weights: ClassVar[bool] = True

    hops: int = 10
    teleport: float = 0.1
    """α, the chance of a walk to begin anew."""

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("hops", self.hops, 0)
        real("teleport", self.teleport, 0, 1)

    def layer(self, number: int, fan_in: int, fan_out: int) -> tuple[Layer, ...]:
        return (Layer((Linear(f"{number}.predict", fan_in, fan_out, travels=False),)),)

    def field(self, graph: Graph, centers: Tensor | None = None) -> Walk:
        reached = reach(propagation(graph), graph, self.hops, centers)
        start = reached.rows[0]
        steps = {id(block): block.times(1 - self.teleport) for block in reached.blocks}
        return Walk(
            (reached.centers[0],) * (self.layers - 1) + (reached.centers[-1],),
            (at(features(graph), start), *[slice(None)] * (self.layers - 1)),
            graph.x if centers is None else None,
            steps=tuple(steps[id(block)] for block in reached.blocks),
            own=tuple(_places(start, rows) for rows in reached.rows[1:]),
        )

    def forward(self, params: Params, field: Any, drop: Drop = identity) -> Pass:
        still = super().forward(params, field, drop)
        last, count = self.layout[-1].weights[0].weight, still.logits.shape[0]
        rows = still.inputs[last]

        def walked(nodes: Tensor) -> Tensor:
            return self.spread(rows[torch.arange(count, device=nodes.device)], field)[nodes]

        return replace(
            still,
            inputs={**still.inputs, last: Later(walked)},
            outputs=(*still.outputs[:-1], self.spread(still.logits, field)),
        )

    def spread(self, hidden: Tensor, field: Walk) -> Tensor:
        """Π H."""
        walk = hidden
        for step, own in zip(field.steps, field.own, strict=True):
            walk = step @ walk + self.teleport * chosen(hidden, own)
        return walk


def _places(first: Places, rows: Places) -> Places:
    if isinstance(first, slice) or isinstance(rows, slice):
        return slice(None)
    return torch.searchsorted(first, rows)
