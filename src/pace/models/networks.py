"""Networks that are declared layer by layer, each as PyG has it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from pace.errors import SettingError
from pace.graph import Graph
from pace.models import propagation as travel
from pace.models.base import Drop, Field, Later, Pass, identity
from pace.models.layers import Layer, Layered, Linear
from pace.models.operator import Operator
from pace.params import Params


@dataclass(frozen=True)
class GCN(Layered):
    """H_l+1 = ReLU(P H_l W_l^T + 1 b_l^T), logits last (Kipf and Welling, 2017).

    Dropout comes after each hidden activation. Weights are stored (out, in) and the bias is added after
    propagation, as in PyG.

    Example:
        >>> from pace import GCN
        >>> GCN((1433, 64, 7)).layers
        2
    """

    title: ClassVar[str] = "graph convolutional network"
    reads_weights: ClassVar[bool] = True
    glorot_start: ClassVar[bool] = True

    def operator(self, graph: Graph) -> Operator:
        return travel.propagation(graph)


@dataclass(frozen=True)
class MLP(Layered):
    """H_l+1 = ReLU(H_l W_l^T + 1 b_l^T), logits last; PyG's `MLP` without normalisation.

    It looks at no edge: what the edges are worth is what the others gain over it.
    """

    title: ClassVar[str] = "perceptron that reads no edge"
    reads_weights: ClassVar[bool] = True  # it reads no edge at all
    part: ClassVar[str] = ".linear"
    travels: ClassVar[bool] = False


@dataclass(frozen=True)
class SAGE(Layered):
    """H_l+1 = ReLU(M H_l W_n^T + 1 b^T + H_l W_r^T), M neighbours' mean (Hamilton et al., 2017)."""

    title: ClassVar[str] = "GraphSAGE network"

    def layer(self, number: int, fan_in: int, fan_out: int) -> tuple[Layer, ...]:
        neighbours = Linear(f"{number}.neighbours", fan_in, fan_out)
        root = Linear(f"{number}.root", fan_in, fan_out, travels=False, bias=False)
        return (Layer((neighbours, root)),)

    def operator(self, graph: Graph) -> Operator:
        return travel.neighbour_mean(graph)


@dataclass(frozen=True)
class GIN(Layered):
    """H_l+1 = ReLU(MLP_l(((1 + ε) I + A) H_l)), MLP(s) = ReLU(s W_0^T + b_0) W_1^T + b_1.

    PyG's `GINConv` (Xu et al., 2019) with ε fixed. A layer's perceptron is as wide inside as the
    layer's output; the last one's is as wide as its input, since few classes would be a bottleneck.
    """

    title: ClassVar[str] = "graph isomorphism network"
    limits: ClassVar[Mapping[str, tuple[float, ...]]] = {"epsilon": (-1e3, 1e3)}

    epsilon: float = 0.0

    def layer(self, number: int, fan_in: int, fan_out: int) -> tuple[Layer, ...]:
        inside = fan_in if 0 < number == self.layers - 1 else fan_out
        lower = Linear(f"{number}.mlp.0", fan_in, inside)
        upper = Linear(f"{number}.mlp.1", inside, fan_out, travels=False)
        return (Layer((lower,), inner=True), Layer((upper,)))

    def operator(self, graph: Graph) -> Operator:
        return travel.neighbour_sum(graph, 1 + self.epsilon)


@dataclass(frozen=True)
class SGC(Layered):
    """logits = P^K X W^T + 1 b^T, with K `hops` (Wu et al., 2019); PyG's `SGConv`."""

    title: ClassVar[str] = "simple graph convolution"
    reads_weights: ClassVar[bool] = True
    part: ClassVar[str] = ".hops"
    limits: ClassVar[Mapping[str, tuple[float, ...]]] = {"hops": (0,)}

    hops: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.widths) != 2:
            raise SettingError(f"widths are {self.widths}, but an sgc has no hidden layer")

    @classmethod
    def sized(cls, features: int, hidden: int, layers: int, classes: int, **settings: Any) -> Self:
        """`layers` are hops; there is no hidden layer."""
        return cls((features, classes), **{"hops": layers, **settings})

    def travelled(self, graph: Graph) -> Operator:
        """P^K X, multiplied out: training multiplies by it at every step."""
        rows = graph.x
        for _ in range(self.hops):
            rows = travel.propagation(graph) @ rows
        return travel.dense_or_sparse(graph, rows)


@dataclass(frozen=True)
class APPNP(Layered):
    """Z = Π MLP(X): Z_0 = H,  Z_k+1 = (1 - α) P Z_k + α H (Gasteiger et al., 2019); PyG's `APPNP`.

    Predictions travel `hops` steps by personalised PageRank. Π is linear, so the last weight
    multiplies Π H; the layers below it read no edge.
    """

    title: ClassVar[str] = "perceptron with personalised PageRank (APPNP)"
    reads_weights: ClassVar[bool] = True
    part: ClassVar[str] = ".predict"
    travels: ClassVar[bool] = False
    limits: ClassVar[Mapping[str, tuple[float, ...]]] = {"hops": (0,), "teleport": (0, 1)}

    hops: int = 10
    teleport: float = 0.1
    """α, the chance of a walk to begin anew."""

    def field(self, graph: Graph, centers: Tensor | None = None) -> Field:
        """After the layers' operators each step's (1 - α) P, and which rows it keeps."""
        reached = travel.reach(travel.propagation(graph), graph, self.hops, centers)
        first = travel.at(travel.features(graph), reached.rows[0])
        steps = {id(block): block.times(1 - self.teleport) for block in reached.blocks}
        walk = zip((steps[id(block)] for block in reached.blocks), reached.own, strict=True)
        still, read = self.layers - 1, graph.x if centers is None else None
        seen = (reached.centers[0],) * still + (reached.centers[-1],)
        return Field(seen, (first, *[slice(None)] * still, *walk), read)

    def forward(self, params: Params, field: Any, drop: Drop = identity) -> Pass:
        still = super().forward(params, field, drop)
        last, count = self.layout[-1].weights[0].weight, still.logits.shape[0]
        rows = still.inputs[last]

        def walked(nodes: Tensor) -> Tensor:
            return self.spread(rows[torch.arange(count, device=nodes.device)], field)[nodes]

        inputs = {**still.inputs, last: Later(walked)}
        outputs = (*still.outputs[:-1], self.spread(still.logits, field))
        return replace(still, inputs=inputs, outputs=outputs)

    def spread(self, hidden: Tensor, field: Field) -> Tensor:
        """Π H."""
        walk = hidden
        for step, own in field.operators[self.layers :]:
            hidden = travel.chosen(hidden, own)
            walk = step @ walk + self.teleport * hidden
        return walk
