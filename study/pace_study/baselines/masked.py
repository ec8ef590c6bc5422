"""What FedPub and FedAux share: a GCN under a linear head, masks that stay at home, the mixture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from pace.errors import SettingError
from pace.graph import Graph
from pace.models import GCN, Drop, Field, Network, Pass, glorot, identity
from pace.params import Params
from pace.protocol import Federation, Message, Method, Uploads
from pace_study.baselines.mixing import attention, gathered, mixtures

NEGLIGIBLE = 1e-3  # a mask entry below this is zero in evaluation


@dataclass(frozen=True)
class MaskedMixing(Method):
    """W_i* = Σ_j softmax_j(τ cos(s_i, s_j)) W_j, evaluated with the receiver's own masks."""

    signature: ClassVar[str]
    """The tensor of an upload that is s."""

    tau: float = 10.0

    def share(self, local: Params, graph: Graph, federation: Federation) -> dict[str, Tensor]:
        return unmasked(local)

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        weights = attention(gathered(uploads, self.signature), self.tau)
        return mixtures(uploads, weights, unmasked(federation.start))


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
        return self.initial(torch.Generator().manual_seed(seed), self.body.classes)

    def initial(self, generator: torch.Generator, inputs: int) -> dict[str, Tensor]:
        """The start, for a head that reads so many inputs."""
        return self.body.initial(generator) | {
            "head.weight": glorot((self.classes, inputs), generator),
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


@dataclass(frozen=True)
class Masked:
    """A network whose every weight W acts as W ⊙ m, with m its mask, all ones at the start.

    A whole pass, which is evaluation, takes entries |m| < 1e-3 for zero; training does not.
    """

    inner: Network

    @property
    def dropout(self) -> float:
        return self.inner.dropout

    def start(self, seed: int) -> dict[str, Tensor]:
        params = dict(self.inner.start(seed))
        weights = [name for name in params if name.endswith(".weight")]
        return params | {mask_of(name): torch.ones_like(params[name]) for name in weights}

    def field(self, graph: Graph, centers: Tensor | None = None) -> Field:
        return self.inner.field(graph, centers)

    def forward(self, params: Params, field: Field, drop: Drop = identity) -> Pass:
        effective = {
            name: value * params[mask_of(name)] if mask_of(name) in params else value
            for name, value in unmasked(params).items()
        }
        return self.inner.forward(effective, field, drop)

    def __call__(self, params: Params, graph: Graph) -> Pass:
        pruned = {
            name: value * (value.abs() >= NEGLIGIBLE) if name.endswith(".mask") else value
            for name, value in params.items()
        }
        return self.forward(pruned, self.field(graph))


def mask_of(name: str) -> str:
    return name.removesuffix(".weight") + ".mask"


def unmasked(params: Params) -> dict[str, Tensor]:
    """The parameters that are exchanged."""
    return {name: value for name, value in params.items() if not name.endswith(".mask")}


def only_gcn(model: object, who: str) -> GCN:
    """The model as a GCN, for a method that is defined on nothing else."""
    if not isinstance(model, GCN):
        raise SettingError(
            f"{who} is defined on the GCN only, this federation's model is a "
            f"{type(model).__name__}: choose another method, or the model gcn"
        )
    return model
