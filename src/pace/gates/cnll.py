"""Convex NLL calibration, CNLL (Section 4.4): one alpha on the logit segment."""

import torch
from torch import Tensor

BISECTIONS = 64  # Section 4.4


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
    if slope(local, external, labels, 0.0) >= 0:
        return 0.0
    if slope(local, external, labels, 1.0) <= 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if slope(local, external, labels, middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def blend(local: Tensor, external: Tensor, alpha: float) -> Tensor:
    """z(α) = (1 - α) z_L + α z_E; at the ends the given logits themselves, bit for bit."""
    if alpha == 0:
        return local
    if alpha == 1:
        return external
    return (1 - alpha) * local + alpha * external


def slope(local: Tensor, external: Tensor, labels: Tensor, alpha: float) -> float:
    """R'(α): the displacement the blend expects less the displacement of the true labels."""
    displacement = external - local  # (n, classes)
    return float(excess(blend(local, external, alpha), displacement[None], labels))


def excess(logits: Tensor, sets: Tensor, labels: Tensor) -> Tensor:
    """mean_v ( E_{c ~ p}[z_vc] - z_{v,y_v} ) of each of (K, n, classes), with p = softmax(logits).

    It is the derivative of the NLL of `logits` in the direction of each set.
    """
    expected = (logits.softmax(1) * sets).sum(2)
    observed = sets.gather(2, labels.expand(len(sets), -1)[..., None]).squeeze(2)
    return (expected - observed).mean(1)


def nll(logits: Tensor, labels: Tensor) -> float:
    """Mean negative log-likelihood of the labels, by the log-softmax in float64."""
    return float(torch.nn.functional.cross_entropy(logits.double(), labels))
