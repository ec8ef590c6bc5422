"""What a network is: a function of its parameters that says which rows each weight multiplies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor

from pace.errors import SettingError
from pace.graph import Graph, expect_graph
from pace.params import Params

Drop = Callable[[Tensor], Tensor]  # dropout, applied to every hidden activation


class Rows(Protocol):
    """One row a node, or several: `rows[nodes]` is dense, (nodes, columns) or (nodes, k, columns)."""

    def __getitem__(self, nodes: Tensor, /) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Later:
    """Rows that are computed when somebody asks for them; in training nobody does."""

    make: Callable[[Tensor], Tensor]

    def __getitem__(self, nodes: Tensor, /) -> Tensor:
        return self.make(nodes)


def identity(hidden: Tensor) -> Tensor:
    """Dropout when nothing is dropped."""
    return hidden


@dataclass(frozen=True, eq=False)
class Field:
    """The constants of a pass that gives the logits of some centre nodes, made once for all steps.

    Layer l is computed for the rows R_l that later layers read; the last rows are the centres. A
    model adds what it multiplies by.
    """

    centers: tuple[Tensor, ...]
    """Where the centres stand among the rows of each layer."""


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

    @property
    def title(self) -> str:
        """What it is called in a sentence, such as `graph attention network`."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Features, hidden widths, classes."""

    @property
    def features(self) -> int: ...

    @property
    def classes(self) -> int: ...

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


class Sized:
    """What follows from a model's widths."""

    widths: tuple[int, ...]

    @property
    def features(self) -> int:
        return self.widths[0]

    @property
    def classes(self) -> int:
        return self.widths[-1]


@dataclass(frozen=True)
class Layered(Sized):
    """What models made of layers share: their sizes, checked, and a start drawn from a seed.

    A model adds `initial`, `averaged`, `field` and `forward`; its settings are further fields.
    """

    title: ClassVar[str]
    reads_weights: ClassVar[bool] = False
    """Whether edge weights enter, as in the layers that PyG gives them to."""
    hidden_layers: ClassVar[bool] = True
    """Whether it has hidden layers whose widths can be chosen."""

    widths: tuple[int, ...]
    """Features, hidden widths, classes."""
    dropout: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", tuple(self.widths))
        if len(self.widths) < 2 or min(self.widths) < 1:
            raise SettingError(
                f"widths are {self.widths}: give features, hidden widths and classes, each ≥ 1"
            )
        if not 0 <= self.dropout < 1:
            raise SettingError(f"dropout is {self.dropout}, expected a number in [0, 1)")

    @classmethod
    def sized(cls, features: int, hidden: int, layers: int, classes: int, **settings: Any) -> Self:
        """The model with `layers - 1` hidden layers of one width."""
        return cls((features, *[hidden] * (layers - 1), classes), **settings)

    @property
    def layers(self) -> int:
        return len(self.widths) - 1

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(value.shape) for name, value in self.initial(None).items()}

    @property
    def averaged(self) -> tuple[str, ...]:
        return tuple(name for name in self.shapes if name.endswith("bias"))

    def start(self, seed: int) -> dict[str, Tensor]:
        """W_0, drawn from `seed`."""
        return self.initial(torch.Generator().manual_seed(seed))

    @abstractmethod
    def initial(self, generator: torch.Generator | None) -> dict[str, Tensor]:
        """W_0 from a stream of random numbers; without one, tensors that have shapes only."""

    @abstractmethod
    def field(self, graph: Graph, centers: Tensor | None = None) -> Field: ...

    @abstractmethod
    def forward(self, params: Params, field: Any, drop: Drop = identity) -> Pass: ...

    def __call__(self, params: Params, graph: Graph) -> Pass:
        """A pass over the whole graph without dropout."""
        expect_graph(graph)
        return self.forward(params, self.field(graph))


def whole(name: str, value: object, least: int) -> None:
    """Refuse a setting that is not a whole number of at least `least`."""
    if type(value) is not int or value < least:
        raise SettingError(f"{name} is {value!r}, expected a whole number, {least} or more")


def real(name: str, value: object, low: float, high: float) -> None:
    """Refuse a setting that is not a number in [low, high]."""
    if type(value) not in (int, float) or not low <= value <= high:  # type: ignore[operator]
        raise SettingError(f"{name} is {value!r}, expected a number from {low:g} to {high:g}")
