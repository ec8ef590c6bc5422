"""A consensus of its peers for each receiver, from what the server already holds. Not in the paper."""

from collections.abc import Iterable

import torch
from torch import Tensor

from pace.merging.carrier import LowRank
from pace.merging.consensus import Batch
from pace.merging.moments import EPS

SHARPNESS = 10.0
LARGEST = 0.5


def peer_weights(moments: Tensor, sharpness: float = SHARPNESS, largest: float = LARGEST) -> Tensor:
    """Weights of each receiver's peers: softmax over j ≠ i of sharpness · cos(m_i, m_j).

    A client is not among its own peers: its own view is Local, which it has already. A federation of
    one has no other, and its peer is itself. A row whose largest weight exceeds `largest` is shrunk
    towards uniform until it does not, so that nobody is sent another's update alone.

    Args:
        moments: first-layer moments, one row a client, (K, features).

    Returns:
        Weights, (K, K); rows sum to one, the diagonal is zero.
    """
    if len(moments) == 1:
        return torch.ones(1, 1, dtype=torch.float64)
    directions = torch.nn.functional.normalize(moments.double(), dim=1)
    similarity = sharpness * (directions @ directions.t())
    weights = similarity.fill_diagonal_(-torch.inf).softmax(1)
    uniform_weight = 1 / (len(moments) - 1)
    uniform = (similarity > -torch.inf).double() / (len(moments) - 1)
    highest = weights.amax(1, keepdim=True)
    excess = (highest - largest).clamp_min(0)
    shrinkage = (excess / (highest - uniform_weight).clamp_min(EPS)).clamp_max(1)
    return weights + shrinkage * (uniform - weights)


def peer_consensus(batches: Iterable[Batch], weights: Tensor) -> list[dict[str, Tensor]]:
    """RegMean with weights of its own for each receiver, a row of `weights` (receivers, K):

        Δ_i = (Σ_j w_ij Δ_j C_j) (Σ_j w_ij C_j)^-1,   C_j = diag(m_j + ε)

    With equal weights each is the `consensus`. Parameters without a moment take the weighted mean.
    """
    above: dict[str, Tensor] = {}  # Σ_j w_ij Δ_j C_j, (receivers, *shape)
    below: dict[str, Tensor] = {}  # Σ_j w_ij C_j, (receivers, in), or (receivers, 1)
    seen = 0
    for updates, moments in batches:
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
    """Σ_j w_ij Δ_j C_j over a batch; of factors, [w_i1 L_1 …] [R_1 C_1; …] for every receiver i."""
    if isinstance(updates, LowRank):
        right = updates.right.double() * column[:, None]
        left = updates.left.double() * share[..., None, None]  # (receivers, many, out, r)
        return left.transpose(1, 2).flatten(2) @ right.flatten(0, 1)
    inner = column.view(len(column), *[1] * (updates.ndim - 2), -1)
    total: Tensor = torch.tensordot(share, updates.double() * inner, 1)
    return total
