"""A guard for those who fear harm more than they want gain: is the evidence for Externals enough?

The validation nodes are divided into folds. For each fold the weights are chosen on the others, and
the mixture's answers on the fold are held against Local's: b nodes only the mixture has right, c
only Local. If both were equally good, b would be a fair coin's heads in b + c throws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pace.gates.mixture import Weights, mix

FOLDS = 10

Weigh = Callable[[Sequence[Tensor], Tensor], Weights]


def admitted(
    sets: Sequence[Tensor], labels: Tensor, weigh: Weigh, level: float, folds: int = FOLDS
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
    sets: Sequence[Tensor], labels: Tensor, weigh: Weigh, folds: int = FOLDS
) -> tuple[int, int]:
    """b and c. Folds go by a node's place, so they are the same on every machine."""
    fold = torch.arange(len(labels), device=labels.device) % folds
    better = worse = 0
    for each in range(folds):
        out = fold == each
        weights = weigh([logits[~out] for logits in sets], labels[~out])
        mixed = mix([logits[out] for logits in sets], weights).argmax(1) == labels[out]
        local = sets[0][out].argmax(1) == labels[out]
        better += int((mixed & ~local).sum())
        worse += int((local & ~mixed).sum())
    return better, worse


def mcnemar_p_value(better: int, worse: int) -> float:
    """P(more than b heads) + P(b heads) / 2 in b + c fair throws: McNemar's test, mid-p, one side."""
    throws = better + worse
    above, ways = 0, 1  # Σ C(throws, k) over k < c tails, which is more than b heads; C(throws, c)
    for tails in range(worse):
        above += ways
        ways = ways * (throws - tails) // (tails + 1)
    return (2 * above + ways) / (1 << throws + 1)
