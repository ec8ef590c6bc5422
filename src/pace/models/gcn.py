"""The graph convolutional network as a function of its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from pace.errors import SettingError
from pace.graph import Graph, expect_graph
from pace.models.base import Drop, Field, Layered, Pass, Rows, identity
from pace.models.initialisation import glorot, zeros
from pace.models.operator import Operator, Product
from pace.models.propagation import propagated_features, propagation
from pace.models.reach import reach
from pace.params import Params


@dataclass(frozen=True, eq=False)
class Propagations(Field):
    """The constants of a GCN's pass."""

    operators: tuple[Operator | Product | Tensor, ...]
    """P X at rows R_1, then P between rows R_l and R_l+1; a tensor where a gradient in P X is wanted."""


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

    def initial(self, generator: torch.Generator | None) -> dict[str, Tensor]:
        """Glorot-uniform weights, zero biases."""
        return initial(self.widths, generator)

    def field(self, graph: Graph, centers: Tensor | None = None) -> Propagations:
        """The constants of a pass over the whole graph, or over what `centers` (a mask) depend on."""
        return receptive_field(graph, self.layers, centers)

    def forward(self, params: Params, field: Propagations, drop: Drop = identity) -> Pass:
        """One pass over a field; `drop` is applied to every hidden activation."""
        activations: list[Tensor] = []
        inputs: dict[str, Rows] = {}
        outputs: list[Tensor] = []
        for layer, operator in enumerate(field.operators):
            rows = operator @ activations[-1] if activations else operator
            output = rows @ params[f"{layer}.weight"].t() + params[f"{layer}.bias"]
            inputs[f"{layer}.weight"] = rows
            outputs.append(output)
            if layer + 1 < self.layers:
                activations.append(drop(output.relu()))
        hidden = {f"{layer}.weight": value for layer, value in enumerate(activations, start=1)}
        return Pass(inputs, hidden, tuple(outputs))

    def __call__(self, params: Params, graph: Graph) -> Pass:
        """A pass over the whole graph without dropout."""
        expect_graph(graph)
        seen = self.forward(params, self.field(graph))
        return replace(seen, unpropagated={"0.weight": graph.x, **seen.unpropagated})


def only_gcn(model: object, who: str) -> GCN:
    """The model as a GCN, for a method that is defined on nothing else."""
    if not isinstance(model, GCN):
        raise SettingError(
            f"{who} is defined on the GCN only, this federation's model is a "
            f"{type(model).__name__}: choose another method, or the model gcn"
        )
    return model


def initial(widths: Sequence[int], generator: torch.Generator | None) -> dict[str, Tensor]:
    """Glorot-uniform weights and zero biases, layer by layer."""
    params = {}
    for layer, (fan_in, fan_out) in enumerate(pairwise(widths)):
        params[f"{layer}.weight"] = glorot((fan_out, fan_in), generator)
        params[f"{layer}.bias"] = zeros(fan_out, generator)
    return params


def receptive_field(graph: Graph, layers: int, centers: Tensor | None = None) -> Propagations:
    """The rows each of `layers` propagations needs for the centres' logits, and P between them."""
    first, reached = propagated_features(graph), reach(propagation(graph), layers - 1, centers)
    rows = reached.rows[0]
    at_rows = first if isinstance(rows, slice) else first.rows(rows)
    return Propagations(reached.centers, (at_rows, *reached.blocks))
