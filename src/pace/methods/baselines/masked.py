"""Masks over a network's weights, trained with them and kept at home: FedPub's and FedAux's."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pace.graph import Graph
from pace.models.base import Drop, Field, Network, Pass, identity
from pace.params import Params

NEGLIGIBLE = 1e-3  # a mask entry below this is zero in evaluation


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
