"""A consensus of its peers for each receiver, from what the server already holds. Not in the paper."""

from collections.abc import Iterable

import torch
from torch import Tensor

from pace.carrier import Carrier, LowRank
from pace.moments import EPS, Moments

SHARPNESS = 10.0
MOST = 0.5


def alike(moments: Tensor, sharpness: float = SHARPNESS, most: float = MOST) -> Tensor:
    """w_ij = softmax over j ≠ i of sharpness · cos(m_i, m_j), from (K, d) moments; rows sum to one.

    A client is not among its own peers: its own view is Local, which it has already. A federation of
    one has no other, and its peer is itself. No peer has more than `most` of the weight, so that
    nobody is sent another's update alone: a row beyond it is drawn towards equal weights.
    """
    if len(moments) == 1:
        return torch.ones(1, 1, dtype=torch.float64)
    directions = torch.nn.functional.normalize(moments.double(), dim=1)
    similarity = sharpness * (directions @ directions.t())
    weights = similarity.fill_diagonal_(-torch.inf).softmax(1)
    equal = (similarity > -torch.inf).double() / (len(moments) - 1)
    highest, fair = weights.amax(1, keepdim=True), 1 / (len(moments) - 1)
    too_much = (highest - most).clamp_min(0)
    towards = (too_much / (highest - fair).clamp_min(EPS)).clamp_max(1)
    return weights + towards * (equal - weights)


def views(stacks: Iterable[tuple[Carrier, Moments]], weights: Tensor) -> list[dict[str, Tensor]]:
    """RegMean with weights of its own for each receiver, a row of `weights` (receivers, K):

        Δ_i = (Σ_j w_ij Δ_j C_j) (Σ_j w_ij C_j)^-1,   C_j = diag(m_j + ε)

    With equal weights each is the `consensus`. Parameters without a moment take the weighted mean.
    Uploads come stacked (see `stacked`).
    """
    above: dict[str, Tensor] = {}  # Σ_j w_ij Δ_j C_j, (receivers, *shape)
    below: dict[str, Tensor] = {}  # Σ_j w_ij C_j, (receivers, in), or (receivers, 1)
    seen = 0
    for updates, moments in stacks:
        many = len(next(iter(moments.values())))
        share = weights[:, seen : seen + many]
        seen += many
        for name, value in updates.items():
            column = (
                moments[name].double() + EPS if name in moments else torch.ones(many, 1).double()
            )
            above[name] = above.get(name, 0) + _weighted(value, column, share)
            below[name] = below.get(name, 0) + share @ column
    means = {
        name: total / below[name].clamp_min(EPS).view(len(weights), *[1] * (total.ndim - 2), -1)
        for name, total in above.items()
    }
    return [{name: each[place] for name, each in means.items()} for place in range(len(weights))]


def _weighted(updates: LowRank | Tensor, column: Tensor, share: Tensor) -> Tensor:
    """Σ_j w_ij Δ_j C_j over a stack; of factors, [w_i1 L_1 …] [R_1 C_1; …] for every receiver i."""
    if isinstance(updates, LowRank):
        right = updates.right.double() * column[:, None]
        left = updates.left.double() * share[..., None, None]  # (receivers, many, out, r)
        return left.transpose(1, 2).flatten(2) @ right.flatten(0, 1)
    inner = column.view(len(column), *[1] * (updates.ndim - 2), -1)
    total: Tensor = torch.tensordot(share, updates.double() * inner, 1)
    return total
