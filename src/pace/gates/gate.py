"""A gate: from the logits of a receiver's validation nodes to a weight for each model.

A gate is any function of this kind, or a frozen dataclass that can be called as one. After it,
`gates.promise` compares what the weights give with Local, unless the gate says `promises = False`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from torch import Tensor

from pace.gates.cnll import calibrate_all
from pace.gates.guard import admitted
from pace.gates.mixture import RIDGE, Weights, local_alone, weigh, weigh_parts

Gate = Callable[[Sequence[Tensor], Tensor], Weights]
"""Of logits on the validation nodes, Local's first, each (nodes, classes), and labels: the weights."""
Validation = tuple[Sequence[Tensor], Tensor]  # what a gate is told of one receiver

LEVEL = 0.5  # of the guard: at least as many held-out validation nodes right as Local


def cnll(sets: Sequence[Tensor], labels: Tensor) -> Weights:
    """The paper's gate, CNLL: (1 - α, α) for Local and one External."""
    return weigh_receivers(cnll, [(sets, labels)])[0]


def keep_local(sets: Sequence[Tensor], labels: Tensor) -> Weights:
    """Local, whatever came back."""
    return local_alone(sets)


@dataclass(frozen=True)
class Fixed:
    """The same alpha for every receiver, for the paper's ablations. It promises nothing."""

    promises: ClassVar[bool] = False

    alpha: float

    def __call__(self, sets: Sequence[Tensor], labels: Tensor) -> Weights:
        return 1 - self.alpha, self.alpha


@dataclass(frozen=True)
class Mixture:
    """A weight for Local and each of several Externals; see `gates.mixture`."""

    ridge: float = RIDGE

    def __call__(self, sets: Sequence[Tensor], labels: Tensor) -> Weights:
        return weigh(sets, labels, self.ridge)


@dataclass(frozen=True)
class Guarded:
    """A mixture that has to prove itself on held-out validation nodes; see `gates.guard`."""

    ridge: float = RIDGE
    level: float = LEVEL  # 1 is no guard

    def __call__(self, sets: Sequence[Tensor], labels: Tensor) -> Weights:
        weights = weigh(sets, labels, self.ridge)
        on_parts = partial(weigh_parts, ridge=self.ridge)
        if sum(weights[1:]) > 0 and not admitted(sets, labels, on_parts, self.level):
            return local_alone(sets)
        return weights


def promises(gate: Gate) -> bool:
    """Whether a gate's weights must not raise validation NLL above Local's."""
    return bool(getattr(gate, "promises", True))


def weigh_receivers(gate: Gate, receivers: Sequence[Validation]) -> list[Weights]:
    """The gate of many receivers: CNLL for all at once, on the device where their logits are."""
    if gate is not cnll:
        return [gate([logits.cpu() for logits in sets], labels.cpu()) for sets, labels in receivers]
    pairs = [(sets[0], sets[1], labels) for sets, labels in receivers]
    return [(1 - alpha, alpha) for alpha in calibrate_all(pairs)]
