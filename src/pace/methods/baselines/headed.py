"""A GCN under a linear head: the networks that FedPub and FedAux bring."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pace.graph import Graph
from pace.models.base import Drop, Field, Pass, identity
from pace.models.gcn import GCN
from pace.models.layers import glorot
from pace.params import Params


@dataclass(frozen=True)
class Headed:
    """H = dropout(ReLU(GCN(X))),   logits = H W^T + b.

    Both the head's weight and its bias are drawn Glorot-uniform, as FedPub's release does.
    """

    body: GCN
    classes: int

    @property
    def dropout(self) -> float:
        return self.body.dropout

    @classmethod
    def on(cls, gcn: GCN) -> Headed:
        """As many convolutions as `gcn` has, the last as wide as the one before it, then the head."""
        return cls(GCN((*gcn.widths[:-1], gcn.widths[-2]), gcn.dropout), gcn.classes)

    def start(self, seed: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return self.body.initial(generator) | {
            "head.weight": glorot((self.classes, self.body.classes), generator),
            "head.bias": glorot((1, self.classes), generator)[0],
        }

    def field(self, graph: Graph, centers: Tensor | None = None) -> Field:
        below = self.body.field(graph, centers)
        return replace(below, centers=(*below.centers, below.centers[-1]))

    def forward(self, params: Params, field: Field, drop: Drop = identity) -> Pass:
        below = self.body.forward(params, field, drop)
        hidden = drop(below.logits.relu())
        return topped(below, hidden, params)

    def __call__(self, params: Params, graph: Graph) -> Pass:
        return self.forward(params, self.field(graph))


def topped(below: Pass, rows: Tensor, params: Params) -> Pass:
    """A pass with a linear head on top of it, which multiplies `rows`."""
    logits = rows @ params["head.weight"].t() + params["head.bias"]
    inputs = {**below.inputs, "head.weight": rows}
    return Pass(inputs, below.unpropagated, (*below.outputs, logits))
