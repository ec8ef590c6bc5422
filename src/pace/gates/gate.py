"""A gate: from the logits of a receiver's validation nodes to a weight for each model.

A gate is any function of this kind, or a frozen dataclass that can be called as one. After it,
`no_worse_than_local` compares what the weights give with Local, unless the gate says
`promises = False`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pace.gates.cnll import calibrate
from pace.gates.mixture import RIDGE, Weights, local_alone, mix, weigh, weigh_parts
from pace.task import called, nll

Gate = Callable[[Sequence[Tensor], Tensor], Weights]
"""Of logits on the validation nodes, Local's first, each (nodes, classes), and labels: the weights."""
Validation = tuple[Sequence[Tensor], Tensor]  # what a gate is told of one receiver

LEVEL = 0.5  # of the guard: at least as many held-out validation nodes right as Local
CHANCE = 0.95  # of the guard: no fewer right than chance explains, one time in twenty
FOLDS = 10
MOST = 2**14  # validation nodes that weights are chosen on


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
        return weigh(*sampled(sets, labels), self.ridge)


@dataclass(frozen=True)
class Guarded(Mixture):
    """A mixture that has to prove itself on held-out validation nodes; see `admitted`."""

    level: float = LEVEL  # 1 is no guard

    def __call__(self, sets: Sequence[Tensor], labels: Tensor) -> Weights:
        weights = super().__call__(sets, labels)
        if sum(weights[1:]) > 0 and not admitted(*sampled(sets, labels), self.ridge, self.level):
            return local_alone(sets)
        return weights


def sampled(sets: Sequence[Tensor], labels: Tensor) -> tuple[Sequence[Tensor], Tensor]:
    """Of very many nodes `MOST`, always the same: a few weights need no more.

    Whatever is chosen on them, `no_worse_than_local` asks all.
    """
    if len(labels) <= MOST:
        return sets, labels
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    chosen = order[:MOST].sort().values
    return [logits[chosen] for logits in sets], labels[chosen]


def promises(gate: Gate) -> bool:
    """Whether a gate's weights must not raise validation NLL above Local's."""
    return bool(getattr(gate, "promises", True))


def weigh_receivers(gate: Gate, receivers: Sequence[Validation]) -> list[Weights]:
    """The gate of many receivers: CNLL for all at once, on the device where their logits are."""
    if gate is not cnll:
        return [gate([logits.cpu() for logits in sets], labels.cpu()) for sets, labels in receivers]
    pairs = [(sets[0], sets[1], labels) for sets, labels in receivers]
    return [(1 - alpha, alpha) for alpha in calibrate(pairs)]


def no_worse_than_local(
    sets: Sequence[Tensor], weights: Weights, validation: Tensor, labels: Tensor
) -> Weights:
    """The weights if the logits they give are finite and no worse than Local's, else Local alone.

    Worse is by the NLL over the validation nodes, computed in float64 from the very float32 logits that
    a receiver uses. Where these are huge and nearly equal over the classes, a slope or a root is
    rounding noise, and a gate, which reasons in float64, may choose weights that harm. `sets` are the
    logits of all nodes, `validation` is their mask, and `labels` are those of the validation nodes.
    """
    if weights == local_alone(sets):
        return weights
    adopted = mix(sets, weights)
    sound = min(weights) >= 0 and sum(weights) > 0 and bool(torch.isfinite(adopted).all())
    if sound and nll(adopted[validation], labels) <= nll(sets[0][validation], labels):
        return weights
    return local_alone(sets)


def admitted(sets: Sequence[Tensor], labels: Tensor, ridge: float, level: float) -> bool:
    """Whether the evidence against "no better than Local" is at the level: 1 admits everything.

    Weights chosen without a fold are tried on it: some nodes are gained (only the mixture has them
    right), some lost (only Local has). Were both equally good, the gained would be the heads of a fair
    coin, flipped once for each such node. At 0.5 the mixture must have at least as many held-out nodes
    right as Local; above that, it may not have fewer by more than chance. Where there are fewer nodes
    than folds there is no evidence, and what has to prove itself is not admitted.
    """
    if level >= 1:
        return True
    if len(labels) < FOLDS:
        return level > LEVEL
    return mcnemar_p_value(*held_out(sets, labels, ridge)) <= level


def held_out(sets: Sequence[Tensor], labels: Tensor, ridge: float) -> tuple[int, int]:
    """Count the held-out nodes gained and lost against Local. Node v is in fold v mod `FOLDS`."""
    folded = torch.arange(len(labels)) % FOLDS == torch.arange(FOLDS)[:, None]
    gained = lost = 0
    for out, weights in zip(folded, weigh_parts(sets, labels, ~folded, ridge), strict=True):
        mixed = called(mix([logits[out] for logits in sets], weights)) == labels[out]
        local = called(sets[0][out]) == labels[out]
        gained += int((mixed & ~local).sum())
        lost += int((local & ~mixed).sum())
    return gained, lost


def mcnemar_p_value(gained: int, lost: int) -> float:
    """One-sided mid-p of McNemar's test.

    P(X > gained) + P(X = gained) / 2 with X ~ Bin(gained + lost, ½).
    """
    if gained == lost:  # by symmetry; a sum of rounded numbers may be above the default level, ½
        return 0.5
    from scipy.special import bdtrc  # scipy.stats would take half a second to import

    flips = gained + lost
    ways = math.lgamma(flips + 1) - math.lgamma(gained + 1) - math.lgamma(lost + 1)
    return float(bdtrc(gained, flips, 0.5)) + math.exp(ways - flips * math.log(2)) / 2
