"""Models that declare their linear layers: the start, the receptive field and the pass follow."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from pace.errors import SettingError
from pace.graph import Graph
from pace.models.base import Drop, Field, Later, Model, Pass, Rows, identity
from pace.models.mapped import LOGITS, Excerpt, MappedGraph, digest_of
from pace.models.operator import Operator, Product
from pace.models.propagation import Places, at, chosen, features, reach, times_features
from pace.params import Params


@dataclass(frozen=True)
class Linear:
    """One weight of a layer, which adds A H W^T + 1 b^T to the layer's output."""

    name: str
    """`NAME.weight` and `NAME.bias` are its parameters."""
    fan_in: int
    fan_out: int
    travels: bool = True
    """Whether A is the model's operator; otherwise it is I."""
    bias: bool = True

    @cached_property
    def weight(self) -> str:
        return f"{self.name}.weight"


@dataclass(frozen=True)
class Layer:
    """Weights whose products are added up."""

    weights: tuple[Linear, ...]
    inner: bool = False
    """Whether only a ReLU follows, without dropout: a step inside a layer, as GIN's perceptron has."""

    @property
    def travels(self) -> bool:
        return any(linear.travels for linear in self.weights)


@dataclass(frozen=True)
class Layered(Model):
    """A model that declares each `layer` and its `operator`; its settings are further fields."""

    title: ClassVar[str]
    reads_weights: ClassVar[bool] = False
    """Whether edge weights enter, as in the layers that PyG gives them to."""
    glorot_start: ClassVar[bool] = False
    """Whether it starts Glorot-uniform with zero biases, rather than as torch's linear layers."""
    part: ClassVar[str] = ""
    """What follows a layer's number in the name of its weight, where it has one weight."""
    travels: ClassVar[bool] = True
    """Whether the rows that this weight multiplies travel along edges."""
    limits: ClassVar[Mapping[str, tuple[float, ...]]] = {}
    """Of settings: the least whole number, or the least and the largest number."""

    widths: tuple[int, ...]
    dropout: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", tuple(self.widths))
        if len(self.widths) < 2 or min(self.widths) < 1:
            raise SettingError(
                f"widths are {self.widths}: give features, hidden widths and classes, each ≥ 1"
            )
        if not 0 <= self.dropout < 1:
            raise SettingError(f"dropout is {self.dropout}, expected a number in [0, 1)")
        for name, bounds in self.limits.items():
            _check_within(name, getattr(self, name), *bounds)

    @classmethod
    def sized(cls, features: int, hidden: int, layers: int, classes: int, **settings: Any) -> Self:
        """The model with `layers - 1` hidden layers of one width."""
        return cls((features, *[hidden] * (layers - 1), classes), **settings)

    @property
    def layers(self) -> int:
        return len(self.widths) - 1

    @property
    def layer_by_layer(self) -> bool:
        """Whether it reads one hop a layer, as a mapped graph needs it."""
        own = type(self)
        return own.field is Layered.field and own.travelled is Layered.travelled

    def layer(self, number: int, fan_in: int, fan_out: int) -> tuple[Layer, ...]:
        """The layer of this number, in one step or more; here, with one weight."""
        return (Layer((Linear(f"{number}{self.part}", fan_in, fan_out, self.travels),)),)

    def operator(self, graph: Graph) -> Operator:
        """A: how rows travel along edges."""
        raise TypeError(f"{type(self).__name__} has no operator: its rows do not travel")

    def travelled(self, graph: Graph) -> Operator | Product:
        """A X, what the weights of the first layer multiply."""
        return times_features(self.operator(graph), graph)

    def first(self, graph: Graph) -> Operator | Product:
        """The same, made once for every setting and kept with the graph."""
        settings = [getattr(self, setting.name) for setting in fields(self)[2:]]
        return graph.derived(f"{type(self).__qualname__} {settings}", self.travelled)

    @cached_property
    def layout(self) -> tuple[Layer, ...]:
        """All layers, in order."""
        pairs = enumerate(pairwise(self.widths))
        return tuple(step for number, ends in pairs for step in self.layer(number, *ends))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(value.shape) for name, value in self.initial(None).items()}

    @property
    def averaged(self) -> tuple[str, ...]:
        return tuple(name for name in self.shapes if not name.endswith("weight"))

    def start(self, seed: int) -> dict[str, Tensor]:
        return self.initial(torch.Generator().manual_seed(seed))

    def initial(self, generator: torch.Generator | None) -> dict[str, Tensor]:
        """W_0 from a stream of random numbers; without one, tensors that have shapes only."""
        params = {}
        for linear in (linear for layer in self.layout for linear in layer.weights):
            shape, bound = (linear.fan_out, linear.fan_in), 1 / math.sqrt(linear.fan_in)
            if self.glorot_start:
                params[linear.weight] = glorot(shape, generator)
            else:
                params[linear.weight] = uniform(shape, bound, generator)
            if linear.bias:
                bound = 0.0 if self.glorot_start else bound
                params[f"{linear.name}.bias"] = uniform(shape[:1], bound, generator)
        return params

    def field(self, graph: Graph, centers: Tensor | None = None) -> Field:
        """What each weight multiplies by, at the rows that the centres' logits depend on."""
        if isinstance(graph, Excerpt):
            graph, centers = graph.of_whole(centers)
        first, *above = self.layout
        travelling = sum(layer.travels for layer in above)
        reached = reach(self.operator(graph) if travelling else None, graph, travelling, centers)
        operators: list[Operator | Product | Tensor | Places] = [
            at(self.first(graph) if linear.travels else features(graph), reached.rows[0])
            for linear in first.weights
        ]
        hops = list(accumulate((layer.travels for layer in above), initial=0))
        for hop, layer in zip(hops, above, strict=False):
            own = reached.own[hop] if layer.travels else slice(None)
            operators += [reached.blocks[hop] if part.travels else own for part in layer.weights]
        layers = zip(hops, self.layout, strict=True)
        seen = tuple(reached.centers[hop] for hop, layer in layers if not layer.inner)
        return Field(seen, tuple(operators), graph.x if centers is None else None)

    def forward(self, params: Params, field: Any, drop: Drop = identity) -> Pass:
        """One pass over a field; `drop` is applied to every hidden activation."""
        inputs, unpropagated = dict[str, Rows](), dict[str, Rows]()
        outputs: list[Tensor] = []
        hidden: Tensor | None = None
        operators = iter(field.operators)
        for layer in self.layout:
            sums: list[Tensor] = []
            for linear in layer.weights:
                rows = next(operators)
                if hidden is not None:  # A H, or the rows of H that stay where they are
                    rows = rows @ hidden if isinstance(rows, Operator) else chosen(hidden, rows)
                inputs[linear.weight] = rows
                raw = field.read if hidden is None else hidden if linear.travels else rows
                if raw is not None:
                    unpropagated[linear.weight] = raw
                product = rows @ params[linear.weight].t()
                sums.append(product + params[f"{linear.name}.bias"] if linear.bias else product)
            output = sum(sums[1:], start=sums[0])
            if layer.inner:
                hidden = output.relu()
                continue
            outputs.append(output)
            if len(outputs) < self.layers:
                hidden = drop(output.relu())
        return Pass(inputs, unpropagated, tuple(outputs))

    def __call__(self, params: Params, graph: Graph) -> Pass:
        if not isinstance(graph, Excerpt):
            return super().__call__(params, graph)
        if graph.in_stream:
            return Pass({}, {}, (self.everywhere(params, graph.whole)[graph.places],))
        field = self.field(graph)
        seen, inputs, number = self.forward(params, field), dict[str, Rows](), 0
        for layer in self.layout:  # of rows that were computed for neighbours, the nodes' own
            for linear in layer.weights:
                inputs[linear.weight] = seen.inputs[linear.weight][field.centers[number]]
            number += not layer.inner
        return Pass(inputs, {}, seen.outputs)

    def everywhere(self, params: Params, graph: MappedGraph) -> Rows:
        """The logits of every node of a mapped graph: what travels is stored, once for a model.

        A (H W^T) has fewer columns than A H.
        """
        name = f"{LOGITS}{digest_of(self, *params.values())}"
        hidden: Rows | None = None
        for layer in self.layout:
            parts: list[tuple[Rows, Tensor]] = []
            for linear in layer.weights:
                below = hidden or (self.first(graph) if linear.travels else features(graph))
                product = partial(_product, below, params[linear.weight].t())
                rows: Rows = Later(product)
                if hidden is not None and linear.travels:
                    path, along = f"{name}-{linear.name}", [self.operator(graph)]
                    rows = graph.stored_product(path, linear.fan_out, product, along)
                bias = params[f"{linear.name}.bias"] if linear.bias else torch.zeros(())
                parts.append((rows, bias))
            hidden = Later(partial(_added, parts, relu=True))
        return Later(partial(_added, parts))


def _product(rows: Rows, weight: Tensor, nodes: Tensor, columns: slice = slice(None)) -> Tensor:
    """Some columns of H W^T at some nodes."""
    return rows[nodes] @ weight[:, columns]


def _added(parts: Sequence[tuple[Rows, Tensor]], nodes: Tensor, *, relu: bool = False) -> Tensor:
    """Σ R + 1 b^T at some nodes, perhaps after a ReLU."""
    outputs = [rows[nodes] + bias for rows, bias in parts]
    total = sum(outputs[1:], start=outputs[0])
    return total.relu() if relu else total


def glorot(shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
    """Uniform on ± sqrt(6 / (in + out)), in and out the last two sizes."""
    return uniform(shape, math.sqrt(6 / sum(shape[-2:])), generator)


def uniform(shape: tuple[int, ...], bound: float, generator: torch.Generator | None) -> Tensor:
    """Uniform on ± bound; zeros, which take no random numbers, where the bound is zero."""
    if generator is None:
        return torch.empty(shape, device="meta")
    if bound == 0:
        return torch.zeros(shape)
    return (torch.rand(shape, generator=generator) * 2 - 1) * bound


def _check_within(name: str, value: Any, low: float, high: float | None = None) -> None:
    """Refuse a setting that is not a number in [low, high], or a whole one of at least `low`."""
    if high is None and (type(value) is not int or value < low):
        raise SettingError(f"{name} is {value!r}, expected a whole number, {low} or more")
    if high is not None and (type(value) not in (int, float) or not low <= value <= high):
        raise SettingError(f"{name} is {value!r}, expected a number from {low:g} to {high:g}")
