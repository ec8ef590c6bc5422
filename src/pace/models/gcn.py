"""The graph convolutional network as a function of its parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from pace.errors import SettingError
from pace.graph import Graph
from pace.models.base import Field, Pass, Rows, identity
from pace.models.operator import Operator, csr_array, csr_tensor
from pace.models.propagation import propagated_features, propagation
from pace.params import Params


@dataclass(frozen=True)
class GCN:
    """H_l+1 = ReLU(P H_l W_l^T + 1 b_l^T), logits last; dropout after each hidden activation.

    Weights are stored (out, in) and the bias is added after propagation, as in PyG.
    """

    widths: tuple[int, ...]  # features, hidden widths, classes
    dropout: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", tuple(self.widths))
        if len(self.widths) < 2 or min(self.widths) < 1:
            raise SettingError(
                f"widths are {self.widths}: give features, hidden widths and classes, each ≥ 1"
            )
        if not 0 <= self.dropout < 1:
            raise SettingError(f"dropout is {self.dropout}, expected a number in [0, 1)")

    @property
    def features(self) -> int:
        return self.widths[0]

    @property
    def classes(self) -> int:
        return self.widths[-1]

    @property
    def layers(self) -> int:
        return len(self.widths) - 1

    @property
    def averaged(self) -> tuple[str, ...]:
        return tuple(f"{layer}.bias" for layer in range(self.layers))

    def start(self, seed: int) -> dict[str, Tensor]:
        """W_0: Glorot-uniform weights from `seed`, zero biases."""
        return initial(self.widths, torch.Generator().manual_seed(seed))

    def field(self, graph: Graph, centers: Tensor | None = None) -> Field:
        """The constants of a pass over the whole graph, or over what `centers` (a mask) depend on."""
        return receptive_field(graph, self.layers, centers)

    def forward(
        self, params: Params, field: Field, drop: Callable[[Tensor], Tensor] = identity
    ) -> Pass:
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


def initial(widths: Sequence[int], generator: torch.Generator) -> dict[str, Tensor]:
    """Glorot-uniform weights and zero biases, layer by layer."""
    params = {}
    for layer, (fan_in, fan_out) in enumerate(pairwise(widths)):
        params[f"{layer}.weight"] = glorot((fan_out, fan_in), generator)
        params[f"{layer}.bias"] = torch.zeros(fan_out)
    return params


def glorot(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Uniform on ± sqrt(6 / (in + out))."""
    bound = math.sqrt(6 / sum(shape))
    return (torch.rand(shape, generator=generator) * 2 - 1) * bound


def receptive_field(graph: Graph, layers: int, centers: Tensor | None = None) -> Field:
    """The rows each of `layers` propagations needs for the centres' logits, and P between them.

    Row sets grow from the centres outwards: R_L = centres, R_l = neighbours of R_l+1 (which contain
    R_l+1, since P has self-loops). Without `centers`, every row set is the whole graph.
    """
    if centers is None:
        everyone = torch.arange(graph.nodes, device=graph.x.device)
        operators = (propagated_features(graph),) + (propagation(graph),) * (layers - 1)
        return Field(operators, (everyone,) * layers)
    whole = csr_array(propagation(graph).matrix)
    goal = centers.cpu().nonzero().flatten()
    rows = [goal]
    blocks: list[Operator] = []
    for _ in range(layers - 1):
        block = whole[rows[0].numpy()]
        reached = torch.unique(torch.from_numpy(block.indices).long())
        blocks.insert(0, Operator(csr_tensor(block[:, reached.numpy()].tocsr())))
        rows.insert(0, reached)
    device = graph.x.device
    first = propagated_features(graph).rows(rows[0].to(device))
    return Field(
        tuple(block.to(device) for block in (first, *blocks)),
        tuple(torch.searchsorted(row, goal).to(device) for row in rows),
    )
