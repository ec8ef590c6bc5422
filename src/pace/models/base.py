"""What a network is: a function of its parameters that says which rows each weight multiplies."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from pace.graph import Graph, expect_graph
from pace.params import Params

Drop = Callable[[Tensor], Tensor]  # dropout, applied to every hidden activation


class Rows(Protocol):
    """One row a node, or several: `rows[nodes]` is dense, (nodes, columns) or (nodes, k, columns)."""

    def __getitem__(self, nodes: Tensor, /) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Later:
    """Lazily computed rows; training never needs them."""

    make: Callable[[Tensor], Tensor]

    def __getitem__(self, nodes: Tensor, /) -> Tensor:
        return self.make(nodes)


def identity(hidden: Tensor) -> Tensor:
    """Dropout when nothing is dropped."""
    return hidden


@dataclass(frozen=True, eq=False)
class Field:
    """The constants of a pass that gives the logits of some centre nodes, made once for all steps."""

    centers: tuple[Tensor, ...]
    """Where the centres are among the rows R_l of each layer, those that later layers read."""
    operators: tuple[Any, ...] = ()
    """What each weight multiplies by, in the order of the weights: A X at rows R_1 for the first layer;
    above it A between rows R_l and R_l+1, or the places of rows that stay."""
    read: Tensor | None = None
    """X of the whole graph; None where the pass is over a part."""


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

    def forward(self, params: Params, field: Any, drop: Drop = ...) -> Pass:
        """One pass over what `field` gave; `drop` is applied to every hidden activation."""

    def __call__(self, params: Params, graph: Graph) -> Pass:
        """A pass over the whole graph without dropout."""


class Model(Network, Protocol):
    """A network that a federation can agree on: of known sizes, every weight with its geometry."""

    widths: tuple[int, ...]
    """Features, hidden widths, classes."""

    @property
    def title(self) -> str:
        """What it is called in a sentence, such as `graph attention network`."""

    @property
    def features(self) -> int:
        return self.widths[0]

    @property
    def classes(self) -> int:
        return self.widths[-1]

    @property
    def reads_weights(self) -> bool:
        """Whether edge weights enter; a graph that has some is refused otherwise."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Every parameter's name and shape, without making it."""

    @property
    def averaged(self) -> Collection[str]:
        """Parameters that multiply no rows (biases, attention vectors) and take the plain mean.

        Any other parameter must be among a pass's `inputs`, or PACE refuses the model.
        """

    def __call__(self, params: Params, graph: Graph) -> Pass:
        expect_graph(graph)
        return self.forward(params, self.field(graph))
