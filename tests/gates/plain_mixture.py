"""The mixture's weights by the formula, one problem at a time: the oracle of the batched form."""

from collections.abc import Sequence

import torch
from torch import Tensor

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
from pace.task import nll


def weigh(sets: Sequence[Tensor], labels: Tensor, ridge: float = RIDGE) -> Weights:
    """The minimiser of R, in float64, with the conditions of optimality checked; Local otherwise.

    Where no External has a weight the answer is Local itself, (1, 0, …): a temperature alone changes
    no prediction. So it is without validation nodes, for logits that are not finite or absurdly large,
    and where the conditions do not hold to `TOLERANCE`. `gate.no_worse_than_local` has the last word.
    """
    stacked = torch.stack([each.double() for each in sets])
    if len(labels) == 0 or not (stacked.abs() < LARGEST).all():
        return local_alone(sets)
    problem = Problem(stacked, labels, ridge)
    weights = minimiser(problem)
    alone = torch.zeros_like(weights)
    alone[0] = weights.sum()  # as good only where the Externals say what Local says
    if not optimal(problem, weights) or optimal(problem, alone):
        return local_alone(sets)
    return tuple(weights.tolist())


def at_labels(sets: Tensor, labels: Tensor) -> Tensor:
    """z_{v,y_v} of each of (K, n, classes), (K, n)."""
    return sets.gather(2, labels.expand(len(sets), -1)[..., None]).squeeze(2)


def excess(logits: Tensor, sets: Tensor, observed: Tensor) -> Tensor:
    """mean_v ( E_{c ~ p}[z_vc] - z_{v,y_v} ) of each of (K, n, classes), with p = softmax(logits).

    It is the derivative of the NLL of `logits` in the direction of each set; `observed` are the sets
    `at_labels`.
    """
    expected = (logits.softmax(1) * sets).sum(2)
    return (expected - observed).mean(1)


class Problem:
    """R and its derivatives on (K, n, classes)."""

    def __init__(self, sets: Tensor, labels: Tensor, ridge: float) -> None:
        # A constant added to a node's logits changes no probability; without it numbers are smaller.
        self.sets = sets - sets.mean(2, keepdim=True)
        self.flat = self.sets.flatten(1)
        self.labels = labels
        self.observed = at_labels(self.sets, labels)
        self.ridge = 2 * ridge / len(labels)  # of half a square
        self.scale = 1 + float(self.sets.abs().amax(2).mean(1).max())

    def value(self, weights: Tensor) -> float:
        return (
            nll(self.logits(weights), self.labels) + self.ridge / 2 * float(weights.sum() - 1) ** 2
        )

    def logits(self, weights: Tensor) -> Tensor:
        return (weights @ self.flat).view(self.sets.shape[1:])

    def gradient(self, weights: Tensor) -> Tensor:
        slopes = excess(self.logits(weights), self.sets, self.observed)
        return slopes + self.ridge * (weights.sum() - 1)

    def hessian(self, weights: Tensor) -> Tensor:
        """Covariances of the sets under the mixture's softmax, plus the ridge's ones."""
        p = self.logits(weights).softmax(1)
        spread = self.sets - (p * self.sets).sum(2, keepdim=True)
        products = (spread * p).flatten(1) @ spread.flatten(1).t()
        return products / len(self.labels) + self.ridge


def minimiser(problem: Problem) -> Tensor:
    """Newton's method from Local; a weight at zero that R would have below zero is held there."""
    weights = torch.zeros(len(problem.sets), dtype=torch.float64)
    weights[0] = 1.0
    for _ in range(STEPS):
        gradient = problem.gradient(weights)
        free = (weights > 0) | (gradient < 0)
        if not free.any() or gradient[free].abs().max() <= TOLERANCE * problem.scale / 10:
            break
        hessian = problem.hessian(weights)
        step = newton(gradient, hessian, free)
        while (outward := (weights == 0) & (step < 0)).any():
            free &= ~outward
            step = newton(gradient, hessian, free)
        lower = descended(problem, weights, step, float(gradient @ step))
        if torch.equal(lower, weights):  # rounding left no way down, and the next step is the same
            break
        weights = lower
    return weights


def newton(gradient: Tensor, hessian: Tensor, free: Tensor) -> Tensor:
    """To the minimum of R's parabola in the free weights."""
    step = torch.zeros_like(gradient)
    among = hessian[free][:, free]
    damping = DAMPING * torch.eye(len(among), dtype=torch.float64) * among.diagonal().max()
    step[free] = -torch.linalg.solve(among + damping, gradient[free])
    return step


def descended(problem: Problem, weights: Tensor, step: Tensor, slope: float) -> Tensor:
    """As far along the step as weights stay at zero or above and R falls enough."""
    to_zero = torch.where(step < 0, -weights / step, torch.inf)
    length, here = min(1.0, float(to_zero.min())), problem.value(weights)
    rounding = ROUNDING * (
        1 + abs(here)
    )  # near the minimum, steps are right and R no judge of them
    for _ in range(HALVINGS):
        there = (weights + length * step).masked_fill(to_zero <= length, 0.0)
        if problem.value(there) <= here + ARMIJO * length * slope + rounding:
            return there
        length /= 2
    return weights


def optimal(problem: Problem, weights: Tensor) -> bool:
    """The conditions of Karush, Kuhn and Tucker: dR/dw_k = 0 where w_k > 0, ≥ 0 where w_k = 0."""
    gradient = problem.gradient(weights)
    tolerance = TOLERANCE * problem.scale
    level = (gradient.abs() <= tolerance) | (weights == 0)
    return bool((weights >= 0).all() and level.all() and (gradient >= -tolerance).all())
