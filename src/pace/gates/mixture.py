"""CNLL for several Externals: a weight for each logit set, by validation NLL. Not in the paper.

    R(w) = mean_v NLL( Σ_k w_k z_k[v], y_v ) + (ρ / n) (Σ_k w_k - 1)²,   w ≥ 0

z_0 is Local. The logits are linear in w and the NLL is convex in the logits, so R is convex. The
weights need not sum to one: their sum is an inverse temperature, which the ridge draws to one where
validation nodes are few. Local, w = (1, 0, …), is feasible and pays no ridge: the minimiser's
validation NLL is never above Local's. CNLL's segment, w = (1 - α, α), is feasible too.

Every step of Newton's method is taken for all parts of the nodes together, such as the folds of a
guard: ten folds cost little more than one.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

RIDGE = 2.0  # ρ
TOLERANCE = 1e-8  # of a gradient, against the size of the logits
LARGEST = 1e100  # a logit whose square is still a number
STEPS, HALVINGS = 100, 60
ARMIJO = 1e-4
ROUNDING = 1e-14
DAMPING = 1e-12  # of a Hessian that may be singular, against its diagonal
AT_ONCE = 2**22  # numbers of all parts' logit sets; more take memory, and no less time

Weights = tuple[float, ...]  # Local's first


def weigh(sets: Sequence[Tensor], labels: Tensor, ridge: float = RIDGE) -> Weights:
    """The minimiser of R, in float64, with the conditions of optimality checked; Local otherwise.

    Where no External has a weight the answer is Local itself, (1, 0, …): a temperature alone changes
    no prediction. So it is without validation nodes, for logits that are not finite or absurdly large,
    and where the conditions do not hold to `TOLERANCE`. `gate.no_worse_than_local` has the last word.
    """
    everyone = torch.ones(1, len(labels), dtype=torch.bool)
    return weigh_parts(sets, labels, everyone, ridge)[0]


def weigh_parts(
    sets: Sequence[Tensor], labels: Tensor, parts: Tensor, ridge: float = RIDGE
) -> list[Weights]:
    """What `weigh` gives for each of `parts`, masks of the nodes, (parts, nodes).

    Several parts are most of the nodes each: their minimisers are looked for from that of all nodes.
    """
    stacked = torch.stack([logits.double() for logits in sets])
    if not len(labels) or not (stacked.abs() < LARGEST).all():
        return [local_alone(sets)] * len(parts)
    start = None
    if len(parts) > 1:
        start = minimisers(Problems(stacked, labels, parts.any(0)[None], ridge))[0]
    results: list[Weights] = []
    for batch in parts.split(max(1, AT_ONCE // max(1, stacked.numel()))):
        problems = Problems(stacked, labels, batch, ridge)
        weights = minimisers(problems, start)
        alone = torch.zeros_like(weights)
        alone[:, 0] = weights.sum(1)  # as good only where the Externals say what Local says
        sound = batch.any(1) & optimal(problems, weights) & ~optimal(problems, alone)
        for row, good in zip(weights.tolist(), sound.tolist(), strict=True):
            results.append(tuple(row) if good else local_alone(sets))
    return results


def local_alone(sets: Sequence[Tensor]) -> Weights:
    """(1, 0, …): Local's logits, bit for bit."""
    return (1.0,) + (0.0,) * (len(sets) - 1)


def mix(sets: Sequence[Tensor], weights: Weights) -> Tensor:
    """Σ_k w_k z_k; a single set with weight one is itself, bit for bit."""
    taken = [(weight, logits) for weight, logits in zip(weights, sets, strict=True) if weight != 0]
    if len(taken) == 1 and taken[0][0] == 1:
        return taken[0][1]
    products = [weight * logits for weight, logits in taken]
    return sum(products[1:], start=products[0]) if products else torch.zeros_like(sets[0])


class Problems:
    """R of each part and its derivatives, for weights (parts, K) of sets (K, n, classes)."""

    def __init__(self, sets: Tensor, labels: Tensor, parts: Tensor, ridge: float) -> None:
        # A constant added to a node's logits changes no probability: let its label's logit be zero.
        self.sets = sets - sets.gather(2, labels.expand(len(sets), -1)[..., None])
        self.flat = self.sets.flatten(1)
        self.counts = parts.sum(1).clamp(min=1).double()
        self.share = parts.double() / self.counts[:, None]  # of each node in a part's mean
        self.ridge = 2 * ridge / self.counts
        self.scale = 1 + (self.sets.abs().amax(2) @ self.share.t()).amax(0)

    def logits(self, weights: Tensor) -> Tensor:
        return (weights @ self.flat).view(-1, *self.sets.shape[1:])

    def value(self, weights: Tensor) -> Tensor:
        drawn = self.ridge / 2 * (weights.sum(1) - 1) ** 2
        return drawn + (self.logits(weights).logsumexp(2) * self.share).sum(1)

    def derivatives(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients (parts, K), and the covariances that are the Hessians (parts, K, K)."""
        chances = self.logits(weights).softmax(2) * self.share[..., None]
        weighted = self.sets * chances[:, None]
        expected = weighted.sum(3)  # at each node, by its share
        gradient = expected.sum(2) + (self.ridge * (weights.sum(1) - 1))[:, None]
        moments = weighted.flatten(2) @ self.flat.T
        squares = self.counts[:, None, None] * (expected @ expected.mT)
        return gradient, moments - squares + self.ridge[:, None, None]


def minimisers(problems: Problems, start: Tensor | None = None) -> Tensor:
    """Newton's method from `start`, (K,), or from Local; a part that is done stays where it is.

    A weight at zero that R would have below zero is held there. A part is done when its gradient is
    small, or when rounding leaves no way down.
    """
    start = torch.eye(len(problems.sets)).double()[0] if start is None else start
    weights = start.repeat(len(problems.ridge), 1)
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
        slope = (gradient * step).sum(1)
        going &= slope < 0  # else rounding has spoilt the Hessian
        lower = descended(problems, weights, step, slope, going)
        going &= (lower != weights).any(1)
        weights = lower
    return weights


def newton(gradient: Tensor, hessian: Tensor, free: Tensor) -> Tensor:
    """To the minimum of each parabola in its free weights; the others stay.

    Where rounding leaves a singular one, of hostile logits, there is no step, and `weigh` keeps Local.
    """
    among = hessian * (free[:, :, None] & free[:, None, :])
    damping = DAMPING * among.diagonal(dim1=1, dim2=2).amax(1)[:, None] * free
    damped = among + torch.diag_embed(torch.where(free, damping, 1.0))
    step, _ = torch.linalg.solve_ex(damped, gradient * free)
    return -torch.nan_to_num(step, 0.0, 0.0, 0.0)


def descended(
    problems: Problems, weights: Tensor, step: Tensor, slope: Tensor, going: Tensor
) -> Tensor:
    """As far along each step as weights stay at zero or above and R falls enough."""
    to_zero = torch.where(step < 0, -weights / step, torch.inf)
    length, value = to_zero.amin(1).clamp(max=1.0), problems.value(weights)
    bound = value + ROUNDING * (1 + value.abs())
    result, searching = weights, going
    for _ in range(HALVINGS):
        candidate = weights + length[:, None] * step
        candidate = candidate.masked_fill(to_zero <= length[:, None], 0.0)
        low = searching & (problems.value(candidate) <= bound + ARMIJO * length * slope)
        result = torch.where(low[:, None], candidate, result)
        searching = searching & ~low
        if not searching.any():
            break
        length = torch.where(searching, length / 2, length)
    return result


def optimal(problems: Problems, weights: Tensor) -> Tensor:
    """The conditions of Karush, Kuhn and Tucker, for each part."""
    gradient, _ = problems.derivatives(weights)
    tolerance = (TOLERANCE * problems.scale)[:, None]
    level = (gradient.abs() <= tolerance) | (weights == 0)
    return ((weights >= 0) & level & (gradient >= -tolerance)).all(1)
