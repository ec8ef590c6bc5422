"""CNLL for several Externals: a weight for each logit set, by validation NLL. Not in the paper.

    R(w) = mean_v NLL( Σ_k w_k z_k[v], y_v ) + (ρ / n) (Σ_k w_k - 1)²,   w ≥ 0

z_0 is Local. The logits are linear in w and the NLL is convex in the logits, so R is convex. The
weights need not sum to one: their sum is an inverse temperature, which the ridge draws to one where
validation nodes are few. Local, w = (1, 0, …), is feasible and pays no ridge: the minimiser's
validation NLL is never above Local's. CNLL's segment, w = (1 - α, α), is feasible too.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pace.calibration import excess, nll

RIDGE = 2.0  # ρ
TOLERANCE = 1e-8  # of a gradient, against the size of the logits
LARGEST = 1e100  # a logit whose square is still a number
ROUNDS, STEPS, HALVINGS = 64, 64, 60
ARMIJO = 1e-4
DAMPING = 1e-12  # of a Hessian that may be singular, against its diagonal

Weights = tuple[float, ...]  # Local's first


def weigh(sets: Sequence[Tensor], labels: Tensor, ridge: float = RIDGE) -> Weights:
    """The minimiser of R, in float64, with the conditions of optimality checked; Local otherwise.

    Where no External has a weight the answer is Local itself, (1, 0, …): a temperature alone changes
    no prediction. So it is without validation nodes, for logits that are not finite or absurdly large,
    and where the conditions do not hold to `TOLERANCE`.
    """
    local = (1.0,) + (0.0,) * (len(sets) - 1)
    stacked = torch.stack([each.double() for each in sets])
    if len(labels) == 0 or not (stacked.abs() < LARGEST).all():
        return local
    problem = Problem(stacked, labels, ridge)
    weights = minimiser(problem)
    if not (weights[1:] > 0).any() or not optimal(problem, weights):
        return local
    found = tuple(weights.tolist())
    return found if nll(mix(sets, found), labels) <= nll(sets[0], labels) else local


def mix(sets: Sequence[Tensor], weights: Weights) -> Tensor:
    """Σ_k w_k z_k; a set that stands alone with weight one is itself, bit for bit."""
    taken = [(weight, each) for weight, each in zip(weights, sets, strict=True) if weight != 0]
    if len(taken) == 1 and taken[0][0] == 1:
        return taken[0][1]
    products = [weight * each for weight, each in taken]
    return sum(products[1:], start=products[0]) if products else torch.zeros_like(sets[0])


class Problem:
    """R and its derivatives on (K, n, classes)."""

    def __init__(self, sets: Tensor, labels: Tensor, ridge: float) -> None:
        # A constant added to a node's logits changes no probability; without it numbers are smaller.
        self.sets = sets - sets.mean(2, keepdim=True)
        self.labels = labels
        self.ridge = 2 * ridge / len(labels)  # of half a square
        self.scale = 1 + float(self.sets.abs().amax(2).mean(1).max())

    def value(self, weights: Tensor) -> float:
        return (
            nll(self.logits(weights), self.labels) + self.ridge / 2 * float(weights.sum() - 1) ** 2
        )

    def logits(self, weights: Tensor) -> Tensor:
        return torch.einsum("k,knc->nc", weights, self.sets)

    def gradient(self, weights: Tensor) -> Tensor:
        slopes = excess(self.logits(weights), self.sets, self.labels)
        return slopes + self.ridge * (weights.sum() - 1)

    def hessian(self, weights: Tensor) -> Tensor:
        """Covariances of the sets under the mixture's softmax, plus the ridge's ones."""
        p = self.logits(weights).softmax(1)
        spread = self.sets - (p * self.sets).sum(2, keepdim=True)
        return torch.einsum("knc,nc,lnc->kl", spread, p, spread) / len(self.labels) + self.ridge


def minimiser(problem: Problem) -> Tensor:
    """Newton's method on the free weights; a weight is freed when R falls along it, held at zero.

    It begins at Local with every External held, so that an External enters only for a gain.
    """
    weights = torch.zeros(len(problem.sets), dtype=torch.float64)
    weights[0] = 1.0
    free = weights > 0
    for _ in range(ROUNDS):
        weights, free = newton(problem, weights, free)
        gradient = problem.gradient(weights).masked_fill(free, torch.inf)
        steepest = int(gradient.argmin())
        if gradient[steepest] >= -TOLERANCE * problem.scale:
            break
        free[steepest] = True
    return weights


def newton(problem: Problem, weights: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
    """The minimiser over the free weights; those that would fall below zero stay there, held."""
    for _ in range(STEPS):
        if not free.any():
            break
        gradient = problem.gradient(weights)[free]
        if gradient.abs().max() <= TOLERANCE * problem.scale / 10:
            break
        hessian = problem.hessian(weights)[free][:, free]
        damping = DAMPING * torch.eye(len(hessian), dtype=torch.float64) * hessian.diagonal().max()
        step = torch.zeros_like(weights)
        step[free] = -torch.linalg.solve(hessian + damping, gradient)
        weights, blocked = descended(problem, weights, step, float(gradient @ step[free]))
        free = free & ~blocked
    return weights, free


def descended(
    problem: Problem, weights: Tensor, step: Tensor, slope: float
) -> tuple[Tensor, Tensor]:
    """As far along the step as R falls enough, and which weights became zero on the way."""
    to_zero = torch.where(step < 0, -weights / step, torch.inf)
    furthest = float(to_zero.min())
    length, here = min(1.0, furthest), problem.value(weights)
    for _ in range(HALVINGS):
        there = (weights + length * step).clamp_min(0)
        if problem.value(there) <= here + ARMIJO * length * slope:
            break
        length /= 2
    else:
        there = weights
    blocked = (to_zero <= length) & (step < 0)
    return there.masked_fill(blocked, 0.0), blocked


def optimal(problem: Problem, weights: Tensor) -> bool:
    """The conditions of Karush, Kuhn and Tucker: dR/dw_k = 0 where w_k > 0, ≥ 0 where w_k = 0."""
    gradient = problem.gradient(weights)
    tolerance = TOLERANCE * problem.scale
    level = (gradient.abs() <= tolerance) | (weights == 0)
    return bool((weights >= 0).all() and level.all() and (gradient >= -tolerance).all())
