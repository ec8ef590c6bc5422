"""Propagation-aware consensus (Section 4.2), from sums over clients."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from pace.merging.carrier import Carrier, LowRank, runs
from pace.merging.moments import EPS, Moments

CLIENTS = "clients"  # how many were added up
Batch = tuple[Carrier, Moments]  # of some clients, each tensor with a first dimension for them


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
    """Uniform, self-inclusive RegMean over the uploaded updates, from the sums.

        Δ = (Σ_j w_j Δ_j C_j) (Σ_j w_j C_j)^-1,   C_j = diag(m_j + ε),   w_j = 1/K

    C_j weights the input columns of Δ_j, so the inverse is a division by column, its denominator
    clamped below by ε. Parameters without a moment, such as biases, take the plain mean.
    """
    clients = total[CLIENTS]
    return {
        name: value / clients / (total.get(f"{name}/m", clients) / clients).clamp_min(EPS)
        for name, value in total.items()
        if name != CLIENTS and not name.endswith("/m")
    }
