"""Propagation-aware consensus (Section 4.2)."""

from collections.abc import Iterable

import torch
from torch import Tensor

from pace.moments import EPS, Moments
from pace.params import Params


def consensus(uploads: Iterable[tuple[Params, Moments]]) -> dict[str, Tensor]:
    """Uniform, self-inclusive RegMean over the uploaded updates, as a running sum.

        Δ = (Σ_j w_j Δ_j C_j) (Σ_j w_j C_j)^-1,   C_j = diag(m_j + ε),   w_j = 1/K

    C_j weights the input columns of Δ_j, so the inverse is a division by column, its denominator
    clamped below by ε. Parameters without a moment, such as biases, take the plain mean. The sums
    are in float64, as is the result, and of one model's size however many clients there are.
    """
    products: dict[str, Tensor] = {}  # Σ_j Δ_j C_j
    weights: dict[str, Tensor] = {}  # Σ_j C_j by column; the count where there is no moment
    count = 0
    for update, moments in uploads:
        count += 1
        for name, value in update.items():
            one = torch.ones((), dtype=torch.float64, device=value.device)
            weight = moments[name].double() + EPS if name in moments else one
            products[name] = products.get(name, 0) + value.double() * weight
            weights[name] = weights.get(name, 0) + weight
    return {
        name: product / count / (weights[name] / count).clamp_min(EPS)
        for name, product in products.items()
    }
