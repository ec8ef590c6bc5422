"""The mixture's weights on many parts of one receiver's nodes at once: all folds of a guard.

`mixture.weigh` on each part is the plain form of it. Here every step of Newton's method is taken for
all parts together, so that ten folds cost little more than one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pace.gates.cnll import at_labels
from pace.gates.mixture import (
    ARMIJO,
    DAMPING,
    HALVINGS,
    LARGEST,
    RIDGE,
    ROUNDING,
    STEPS,
    TOLERANCE,
    Weights,
    local_alone,
)

AT_ONCE = 2**22  # numbers of all parts' logit sets; more take memory, and no less time


def weigh_parts(
    sets: Sequence[Tensor], labels: Tensor, parts: Tensor, ridge: float = RIDGE
) -> list[Weights]:
    """What `mixture.weigh` gives for each of `parts`, masks of the nodes, (parts, nodes)."""
    stacked = torch.stack([each.double() for each in sets])
    if not (stacked.abs() < LARGEST).all():
        return [local_alone(sets)] * len(parts)
    found: list[Weights] = []
    for some in parts.split(max(1, AT_ONCE // max(1, stacked.numel()))):
        problems = Problems(stacked, labels, some, ridge)
        weights = minimisers(problems)
        alone = torch.zeros_like(weights)
        alone[:, 0] = weights.sum(1)
        sound = some.any(1) & optimal(problems, weights) & ~optimal(problems, alone)
        for each, good in zip(weights.tolist(), sound.tolist(), strict=True):
            found.append(tuple(each) if good else local_alone(sets))
    return found


class Problems:
    """R of each part and its derivatives, for weights (parts, K) of sets (K, n, classes)."""

    def __init__(self, sets: Tensor, labels: Tensor, parts: Tensor, ridge: float) -> None:
        self.sets = sets - sets.mean(2, keepdim=True)
        self.flat = self.sets.flatten(1)
        self.labels = labels
        self.observed = at_labels(self.sets, labels)
        counts = parts.sum(1).clamp(min=1)
        self.share = parts.double() / counts[:, None]  # of each node in a part's mean
        self.ridge = 2 * ridge / counts.double()
        self.scale = 1 + (self.sets.abs().amax(2) @ self.share.t()).amax(0)

    def logits(self, weights: Tensor) -> Tensor:
        return (weights @ self.flat).view(-1, *self.sets.shape[1:])

    def value(self, weights: Tensor) -> Tensor:
        logs = self.logits(weights).log_softmax(2)
        likelihood = logs.gather(2, self.labels.expand(len(weights), -1)[..., None]).squeeze(2)
        drawn = self.ridge / 2 * (weights.sum(1) - 1) ** 2
        return drawn - (likelihood * self.share).sum(1)

    def derivatives(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients (parts, K), and the covariances that are the Hessians (parts, K, K)."""
        chances = self.logits(weights).softmax(2)
        expected = torch.einsum("bnc,knc->bkn", chances, self.sets)
        excess = torch.einsum("bkn,bn->bk", expected - self.observed, self.share)
        gradient = excess + (self.ridge * (weights.sum(1) - 1))[:, None]
        spread = self.sets - expected[..., None]
        weighted = spread * (chances * self.share[..., None])[:, None]
        hessian = weighted.flatten(2) @ spread.flatten(2).mT + self.ridge[:, None, None]
        return gradient, hessian


def minimisers(problems: Problems) -> Tensor:
    """Newton's method from Local, as `mixture.minimiser` goes; a part that is done stays where it is."""
    weights = torch.zeros(len(problems.ridge), len(problems.sets), dtype=torch.float64)
    weights[:, 0] = 1.0
    going = torch.ones(len(weights), dtype=torch.bool)
    for _ in range(STEPS):
        gradient, hessian = problems.derivatives(weights)
        free = (weights > 0) | (gradient < 0)
        steepest = (gradient.abs() * free).amax(1)
        going &= steepest > TOLERANCE * problems.scale / 10
        if not going.any():
            break
        free &= going[:, None]
        step = newton(gradient, hessian, free)
        while (outward := (weights == 0) & (step < 0)).any():
            free &= ~outward
            step = newton(gradient, hessian, free)
        lower = descended(problems, weights, step, (gradient * step).sum(1), going)
        going &= (lower != weights).any(1)
        weights = lower
    return weights


def newton(gradient: Tensor, hessian: Tensor, free: Tensor) -> Tensor:
    """To the minimum of each parabola in its free weights; the others stay."""
    among = hessian * (free[:, :, None] & free[:, None, :])
    damping = DAMPING * among.diagonal(dim1=1, dim2=2).amax(1)[:, None] * free
    held = among + torch.diag_embed(torch.where(free, damping, 1.0))
    step: Tensor = -torch.linalg.solve(held, gradient * free)
    return step


def descended(
    problems: Problems, weights: Tensor, step: Tensor, slope: Tensor, going: Tensor
) -> Tensor:
    """As far along each step as weights stay at zero or above and R falls enough."""
    to_zero = torch.where(step < 0, -weights / step, torch.inf)
    length, here = to_zero.amin(1).clamp(max=1.0), problems.value(weights)
    bound = here + ROUNDING * (1 + here.abs())
    result, open_ = weights, going
    for _ in range(HALVINGS):
        there = weights + length[:, None] * step
        there = there.masked_fill(to_zero <= length[:, None], 0.0)
        low = open_ & (problems.value(there) <= bound + ARMIJO * length * slope)
        result = torch.where(low[:, None], there, result)
        open_ = open_ & ~low
        if not open_.any():
            break
        length = torch.where(open_, length / 2, length)
    return result


def optimal(problems: Problems, weights: Tensor) -> Tensor:
    """The conditions of Karush, Kuhn and Tucker, for each part."""
    gradient, _ = problems.derivatives(weights)
    tolerance = (TOLERANCE * problems.scale)[:, None]
    level = (gradient.abs() <= tolerance) | (weights == 0)
    return ((weights >= 0) & level & (gradient >= -tolerance)).all(1)
