"""Convex NLL calibration, CNLL (Section 4.4): one alpha on the logit segment."""

import sys
from collections.abc import Callable

import torch
from torch import Tensor

BISECTIONS = 64  # Section 4.4
NARROWINGS = 12  # of the bracket, at most

Slope = Callable[[float], float]  # alpha -> R'(alpha)


def calibrate(local: Tensor, external: Tensor, labels: Tensor) -> float:
    """The alpha in [0, 1] whose blend has the least validation NLL, in float64.

        R'(α) = mean_v ( E_{c ~ p_α}[d_vc] - d_{v,y_v} ),   d = z_E - z_L

    R is convex, so R'(0) ≥ 0 selects Local, R'(1) ≤ 0 External, and bisection finds the root of R'
    in between. No validation nodes, or logits that are not finite: Local. A flat R: Local, the
    smallest minimiser. Rounding can spoil all of this where logits are huge: `gates.promise` compares
    what is adopted with Local, whatever was chosen here.
    """
    if len(labels) == 0 or not (torch.isfinite(local).all() and torch.isfinite(external).all()):
        return 0.0
    local, external = local.double(), external.double()
    at = slope_of(local, external, labels)
    first, last = at(0.0), at(1.0)
    if first >= 0:
        return 0.0
    if last <= 0:
        return 1.0
    largest = max(float(local.abs().max()), float(external.abs().max()))
    rounding = 16 * sys.float_info.epsilon * (1 + largest + local.shape[1]) * largest
    return bisected(at, *bracketed(at, first, last, rounding))


def bisected(slope: Slope, below: float = 0.0, above: float = 1.0) -> float:
    """The middle after `BISECTIONS` halvings of [0, 1] by the sign of a slope that never falls.

    Its sign is known, and not computed, up to `below`, where it is negative, and from `above` on,
    where it is positive.
    """
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if middle in (low, high):  # neighbours: no halving moves them any more
            break
        if middle <= below or (middle < above and slope(middle) < 0):
            low = middle
        else:
            high = middle
    return (low + high) / 2


def bracketed(slope: Slope, first: float, last: float, rounding: float) -> tuple[float, float]:
    """Narrow bounds of the root of a rising slope, by false position (the Illinois form).

    At either bound the slope is further from zero than it can be rounded, so bisection with them ends
    at the same bits as without, after a third of the evaluations.
    """
    ends = [(0.0, first), (1.0, last)]  # what the secant goes through
    bounds = [0.0, 1.0]

    def look(alpha: float) -> float:
        value = slope(alpha)
        if abs(value) > rounding:
            side = int(value > 0)
            bounds[side] = (max, min)[side](bounds[side], alpha)
        return value

    before = None
    for _ in range(NARROWINGS):
        (low, under), (high, over) = ends
        alpha = (low * over - high * under) / (over - under)
        value = look(alpha)
        if not abs(value) > rounding:
            width = 4 * rounding * (high - low) / (over - under)
            look(max(0.0, alpha - width))
            look(min(1.0, alpha + width))
            break
        side = int(value > 0)
        ends[side] = (alpha, value)
        if side == before:  # twice on one side: halve the other's weight
            ends[1 - side] = (ends[1 - side][0], ends[1 - side][1] / 2)
        before = side
    return bounds[0], bounds[1]


def blend(local: Tensor, external: Tensor, alpha: float) -> Tensor:
    """z(α) = (1 - α) z_L + α z_E; at the ends the given logits themselves, bit for bit."""
    if alpha == 0:
        return local
    if alpha == 1:
        return external
    return (1 - alpha) * local + alpha * external


def slope(local: Tensor, external: Tensor, labels: Tensor, alpha: float) -> float:
    """R'(α): the displacement the blend expects less the displacement of the true labels."""
    return slope_of(local, external, labels)(alpha)


def slope_of(local: Tensor, external: Tensor, labels: Tensor) -> Slope:
    """`slope` at any α, with what does not depend on α computed once."""
    displacement = (external - local)[None]  # (1, n, classes)
    observed = at_labels(displacement, labels)

    return lambda alpha: float(excess(blend(local, external, alpha), displacement, observed))


def excess(logits: Tensor, sets: Tensor, observed: Tensor) -> Tensor:
    """mean_v ( E_{c ~ p}[z_vc] - z_{v,y_v} ) of each of (K, n, classes), with p = softmax(logits).

    It is the derivative of the NLL of `logits` in the direction of each set; `observed` are the sets
    `at_labels`.
    """
    expected = (logits.softmax(1) * sets).sum(2)
    return (expected - observed).mean(1)


def at_labels(sets: Tensor, labels: Tensor) -> Tensor:
    """z_{v,y_v} of each of (K, n, classes), (K, n)."""
    return sets.gather(2, labels.expand(len(sets), -1)[..., None]).squeeze(2)


def nll(logits: Tensor, labels: Tensor) -> float:
    """Mean negative log-likelihood of the labels, by the log-softmax in float64."""
    return float(torch.nn.functional.cross_entropy(logits.double(), labels))
