"""A guard against harm: is the evidence that Externals help strong enough?

The validation nodes are divided into folds. For each fold the weights are chosen on the others, and
the mixture's predictions on the fold are compared with Local's: some nodes are gained (only the
mixture has them right), some lost (only Local has). If both models were equally good, the gained
would be the heads of a fair coin, flipped once for each gained or lost node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pace.gates.mixture import Weights, mix
from pace.task import called

FOLDS = 10

# (logit sets, labels, parts of the nodes) -> weights on each part
WeighParts = Callable[[Sequence[Tensor], Tensor, Tensor], Sequence[Weights]]


def admitted(
    sets: Sequence[Tensor], labels: Tensor, weigh: WeighParts, level: float, folds: int = FOLDS
) -> bool:
    """Whether the evidence against "no better than Local" is at the level: 1 admits everything.

    At 0.5 the mixture must have at least as many held-out nodes right as Local. Where there are
    fewer nodes than folds there is no evidence, and nothing is admitted below level 1.
    """
    if level >= 1:
        return True
    if len(labels) < folds:
        return False
    return mcnemar_p_value(*held_out(sets, labels, weigh, folds)) <= level


def held_out(
    sets: Sequence[Tensor], labels: Tensor, weigh: WeighParts, folds: int = FOLDS
) -> tuple[int, int]:
    """Count the held-out nodes gained and lost against Local. Node v is in fold v mod `folds`."""
    folded = torch.arange(len(labels)) % folds == torch.arange(folds)[:, None]
    gained = lost = 0
    for out, weights in zip(folded, weigh(sets, labels, ~folded), strict=True):
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
