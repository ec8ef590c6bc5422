"""Propagation-aware consensus (Section 4.2)."""

from collections.abc import Iterable

import torch
from torch import Tensor

from pace.merging.batches import runs
from pace.merging.carrier import Carrier, LowRank
from pace.merging.moments import EPS, Moments

BLOCK = 16  # uploads whose factors enter the sum in one product


def consensus(uploads: Iterable[tuple[Carrier, Moments]]) -> dict[str, Tensor]:
    """Uniform, self-inclusive RegMean over the uploaded updates, as a running sum.

        Δ = (Σ_j w_j Δ_j C_j) (Σ_j w_j C_j)^-1,   C_j = diag(m_j + ε),   w_j = 1/K

    C_j weights the input columns of Δ_j, so the inverse is a division by column, its denominator
    clamped below by ε. Parameters without a moment, such as biases, take the plain mean. The sums
    are in float64, as is the result, and of one model's size however many clients there are.
    Updates that came as factors are never multiplied out one by one.
    """
    sums: dict[str, RunningSum] = {}
    for update, moments in uploads:
        for name, value in update.items():
            weight = moments[name].double() + EPS if name in moments else None
            sums.setdefault(name, RunningSum()).add(value, weight)
    return {name: each.mean() for name, each in sums.items()}


def consensus_of_stacks(stacks: Iterable[tuple[Carrier, Moments]]) -> dict[str, Tensor]:
    """The same from uploads that come stacked (see `stacked`)."""
    sums: dict[str, RunningSum] = {}
    for updates, moments in stacks:
        for name, value in updates.items():
            weights = moments[name].double() + EPS if name in moments else None
            sums.setdefault(name, RunningSum()).add_stack(value, weights)
    return {name: each.mean() for name, each in sums.items()}


class RunningSum:
    """Σ_j Δ_j C_j and Σ_j C_j of one parameter; without a moment C_j is the identity."""

    def __init__(self) -> None:
        self.count = 0
        self.product: Tensor | None = None
        self.weight: Tensor | float = 0.0
        self.lefts: list[Tensor] = []
        self.rights: list[Tensor] = []

    def add(self, update: LowRank | Tensor, weight: Tensor | None) -> None:
        self.count += 1
        self.weight = self.weight + (1.0 if weight is None else weight)
        given = update if isinstance(update, Tensor) else update.right
        part = given.to(torch.float64, copy=True)  # what was given stays as it is
        if weight is not None:
            part.mul_(weight)
        if isinstance(update, Tensor):
            self.product = part if self.product is None else self.product.add_(part)
            return
        self.lefts.append(update.left)
        self.rights.append(part)
        if len(self.lefts) == BLOCK:
            self.flush()

    def add_stack(self, updates: LowRank | Tensor, weights: Tensor | None) -> None:
        """Many at once, each with its row of weights."""
        many = updates if isinstance(updates, Tensor) else updates.right
        self.count += len(many)
        self.weight = self.weight + (len(many) if weights is None else weights.sum(0))
        for some in runs(many):
            part = many[some].to(torch.float64, copy=True)
            if weights is not None:
                part.mul_(weights[some, None])
            if isinstance(updates, Tensor):
                total = part.sum(0)
                self.product = total if self.product is None else self.product.add_(total)
            else:
                left = updates.left[some].transpose(0, 1).flatten(1).double()  # (out, many · r)
                self.multiply(left, part.flatten(0, 1))

    def multiply(self, left: Tensor, right: Tensor) -> None:
        self.product = left @ right if self.product is None else self.product.addmm_(left, right)

    def flush(self) -> None:
        self.multiply(torch.cat(self.lefts, dim=1).double(), torch.cat(self.rights))
        self.lefts, self.rights = [], []

    def mean(self) -> Tensor:
        """Σ_j Δ_j C_j / K over Σ_j C_j / K."""
        if self.lefts:
            self.flush()
        assert self.product is not None  # a sum exists because something was added
        average = torch.as_tensor(self.weight / self.count, dtype=torch.float64)
        return self.product / self.count / average.to(self.product.device).clamp_min(EPS)
