"""What a network is: a function of its parameters that says which rows each weight multiplies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from pace.graph import Graph
from pace.models.operator import Operator, Product
from pace.params import Params

Rows = Operator | Product | Tensor  # `[nodes]` of one is dense


def identity(hidden: Tensor) -> Tensor:
    """Dropout when nothing is dropped."""
    return hidden


@dataclass(frozen=True, eq=False)
class Field:
    """What a pass must know of a graph to give the logits of some centre nodes.

    Layer l is computed for the rows R_l that later layers read; the last rows are the centres.
    """

    # P X at rows R_1, then P between rows R_l and R_l+1; a tensor where a gradient in P X is wanted
    operators: tuple[Operator | Product | Tensor, ...]
    centers: tuple[Tensor, ...]  # where the centres stand among the rows of each layer


@dataclass(frozen=True, eq=False)
class Pass:
    """What a network computed, and from what: PACE's moments are taken of `inputs`."""

    inputs: Mapping[str, Rows]
    """Weight's name -> the rows that this weight multiplies; S = P H for a GCN."""
    unpropagated: Mapping[str, Rows]
    """The same rows before they travelled along edges; H for a GCN."""
    outputs: tuple[Tensor, ...]
    """Each layer's output before its activation; the last are the logits."""

    @property
    def logits(self) -> Tensor:
        return self.outputs[-1]


class Network(Protocol):
    """A function of parameters, as training needs it. A method may bring its own."""

    @property
    def dropout(self) -> float: ...

    def start(self, seed: int) -> Params:
        """W_0."""

    def field(self, graph: Graph, centers: Tensor | None = None) -> Field:
        """The constants of a pass that gives the logits of `centers` (a mask), or of every node."""

    def forward(self, params: Params, field: Field, drop: Callable[[Tensor], Tensor] = ...) -> Pass:
        """One pass over a field; `drop` is applied to every hidden activation."""

    def __call__(self, params: Params, graph: Graph) -> Pass:
        """A pass over the whole graph without dropout."""


class Model(Network, Protocol):
    """A network that a federation can agree on: of known sizes, every weight with its geometry."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Features, hidden widths, classes."""

    @property
    def features(self) -> int: ...

    @property
    def classes(self) -> int: ...

    @property
    def averaged(self) -> Collection[str]:
        """Parameters that multiply no rows (biases, attention vectors) and take the plain mean.

        Any other parameter must be among a pass's `inputs`, or PACE refuses the model.
        """
