"""Propagation-aware consensus (Section 4.2), from sums over clients.

Below it a consensus of its peers for each receiver, which is not in the paper.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from pace.merging.carrier import Carrier, LowRank, runs
from pace.merging.moments import EPS, Moments

CLIENTS = "clients"  # how many were added up
SHARPNESS, LARGEST = 10.0, 0.5  # of peers' weights
Batch = tuple[Carrier, Moments]  # of some clients, each tensor with a first dimension for them


def consensus(batches: Iterable[Batch]) -> dict[str, Tensor]:
    """Uniform, self-inclusive RegMean over the uploaded updates.

        Δ = (Σ_j w_j Δ_j C_j) (Σ_j w_j C_j)^-1,   C_j = diag(m_j + ε),   w_j = 1/K

    C_j weights the input columns of Δ_j, so the inverse is a division by column, its denominator
    clamped below by ε. Parameters without a moment, such as biases, take the plain mean.
    """
    return mean(summed(batches))


def summed(batches: Iterable[Batch]) -> dict[str, Tensor]:
    """All that the consensus needs of the clients: Σ_j Δ_j C_j, Σ_j C_j under `name/m`, and K.

    In float64, and of one model's size however many clients there are.
    """
    total: dict[str, Tensor] = {}
    count = torch.zeros(1, dtype=torch.float64)
    for updates, moments in batches:
        for name, value in updates.items():
            weights = moments[name].double() + EPS if name in moments else None
            total[name] = added(total.get(name), value, weights)
            if weights is not None:
                total[f"{name}/m"] = total.get(f"{name}/m", 0) + weights.sum(0)
        count += len(value.right if isinstance(value, LowRank) else value)
    return total | {CLIENTS: count}


def added(total: Tensor | None, updates: LowRank | Tensor, weights: Tensor | None) -> Tensor:
    """`total` plus Σ_j Δ_j C_j over a batch, in its place; factors are not multiplied out one by one."""
    values = updates.right if isinstance(updates, LowRank) else updates
    for run in runs(values):
        part = values[run].to(torch.float64, copy=True)  # what was given stays as it is
        if weights is not None:
            part.mul_(weights[run, None])
        if isinstance(updates, LowRank):
            left = updates.left[run].transpose(0, 1).flatten(1).double()  # (out, clients · r)
            right = part.flatten(0, 1)
            total = left @ right if total is None else total.addmm_(left, right)
        else:
            total = part.sum(0) if total is None else total.add_(part.sum(0))
    assert total is not None  # a batch has a client
    return total


def mean(total: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Δ from the sums: Σ_j Δ_j C_j / K over Σ_j C_j / K."""
    clients = total[CLIENTS]
    return {
        name: value / clients / (total.get(f"{name}/m", clients) / clients).clamp_min(EPS)
        for name, value in total.items()
        if name != CLIENTS and not name.endswith("/m")
    }


def peer_weights(moments: Tensor, sharpness: float = SHARPNESS, largest: float = LARGEST) -> Tensor:
    """Weights of each receiver's peers, (K, K): softmax over j ≠ i of sharpness · cos(m_i, m_j).

    A client is not among its own peers: its own view is Local, which it has already. A federation of
    one has no other, and its peer is itself. A row whose largest weight exceeds `largest` is shrunk
    towards uniform until it does not, so that nobody is sent another's update alone. `moments` are
    those of the first layer, (K, features).
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
