"""A perceptron whose predictions travel by personalised PageRank (Gasteiger et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pace.graph import Graph
from pace.models.base import Drop, Field, Later, Layered, Pass, identity, real, whole
from pace.models.mlp import layer_by_layer, perceptron
from pace.models.operator import Operator
from pace.models.propagation import features, propagation
from pace.models.reach import Places, chosen, reach
from pace.params import Params

PREDICT = "predict"


@dataclass(frozen=True, eq=False)
class Walk(Field):
    """Features where a walk may come from, and each of its steps."""

    features: Operator
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

    def initial(self, generator: torch.Generator | None) -> dict[str, Tensor]:
        return perceptron(self.widths, generator, PREDICT)

    def field(self, graph: Graph, centers: Tensor | None = None) -> Walk:
        reached = reach(propagation(graph), self.hops, centers)
        first, everything = reached.rows[0], features(graph)
        steps = {id(block): block.times(1 - self.teleport) for block in reached.blocks}
        return Walk(
            (reached.centers[0],) * (self.layers - 1) + (reached.centers[-1],),
            everything if isinstance(first, slice) else everything.rows(first),
            tuple(steps[id(block)] for block in reached.blocks),
            tuple(_places(first, rows) for rows in reached.rows[1:]),
        )

    def forward(self, params: Params, field: Walk, drop: Drop = identity) -> Pass:
        inputs, outputs = layer_by_layer(params, field.features, self.layers, drop, PREDICT)
        last = f"{self.layers - 1}.{PREDICT}.weight"
        rows = inputs[last]

        def walked(nodes: Tensor) -> Tensor:
            everyone = torch.arange(field.features.shape[0], device=nodes.device)
            return self.spread(rows[everyone], field)[nodes]

        return Pass(
            {**inputs, last: Later(walked)},
            inputs,
            (*outputs[:-1], self.spread(outputs[-1], field)),
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
