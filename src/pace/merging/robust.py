"""Consensus among clients of whom some may lie: not in the paper, and off unless it is asked for.

Each rule is a frozen setting and a function of the uploads, in the place of `consensus`. Clipping
reads the uploads twice and keeps one model's size, as the consensus does. The other two need every
client's value of a number at once: they hold all carriers, as factors, and multiply out a block of
rows at a time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from pace.errors import SettingError
from pace.merging.carrier import Carrier, LowRank
from pace.merging.consensus import Batch, consensus
from pace.merging.moments import EPS

BLOCK = 2**22  # numbers of all clients that are dense at the same time


class Batches(Protocol):
    """Carriers and moments of the uploads in batches, read as often as a rule likes."""

    def __iter__(self) -> Iterator[Batch]: ...


class Rule(Protocol):
    """A consensus of the uploads, in float64."""

    def __call__(self, batches: Batches) -> dict[str, Tensor]: ...


@dataclass(frozen=True)
class Clipped:
    """The paper's consensus of updates none of which is longer than `most` times the median one.

        Δ_j min(1, c · median_k ‖Δ_k‖ / ‖Δ_j‖)

    The median is the lower one, so it is an honest client's, or shorter, as long as most are honest.
    """

    most: float = 2.0  # c

    def __post_init__(self) -> None:
        if not self.most > 0:
            raise SettingError(f"clipping is at {self.most} times the median, expected above 0")

    def __call__(self, batches: Batches) -> dict[str, Tensor]:
        return consensus(self.clipped(batches))

    def clipped(self, batches: Batches) -> Iterator[Batch]:
        lengths = [norms(carriers) for carriers, _ in batches]
        median = statistics.median_low(length for several in lengths for length in several)
        limit = self.most * median if self.most < math.inf else math.inf
        for (carriers, moments), several in zip(batches, lengths, strict=True):
            factors = [limit / length if length > limit else 1.0 for length in several]
            yield scaled(carriers, torch.tensor(factors, dtype=torch.float64)), moments


@dataclass(frozen=True)
class Trimmed(Clipped):
    """RegMean number by number, without the part β of a column's weight at either end.

    Values are ordered, and of the weight Σ_j C_j the lowest β and the highest β do not count. β = 0
    is the paper's mean. Whoever holds no more than β of a column's weight cannot move a number of
    it beyond the others' values. A column that one client alone uses stays that client's, as in the
    paper, which is why updates are clipped first.
    """

    share: float = 0.3  # β

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.share < 0.5:
            raise SettingError(f"the trimmed share is {self.share}, expected 0 to below 0.5")

    def __call__(self, batches: Batches) -> dict[str, Tensor]:
        return by_number(self.clipped(batches), self.middle)

    def middle(self, values: Tensor, weights: Tensor) -> Tensor:
        ordered, order = values.sort(dim=0)
        weight = weights.expand_as(values).gather(0, order)
        upper = weight.cumsum(0)
        low, high = self.share * upper[-1:], (1 - self.share) * upper[-1:]
        kept = (torch.minimum(upper, high) - torch.maximum(upper - weight, low)).clamp_min(0)
        return (ordered * kept).sum(0) / kept.sum(0)


@dataclass(frozen=True)
class Median(Clipped):
    """RegMean number by number, with absolute in place of squared errors; clipped first, as above.

        argmin_δ Σ_j C_j |Δ_j - δ|

    is the median weighted by C_j. It stays among the honest values wherever honest clients hold more
    than half of a column's weight.
    """

    def __call__(self, batches: Batches) -> dict[str, Tensor]:
        return by_number(self.clipped(batches), self.middle)

    def middle(self, values: Tensor, weights: Tensor) -> Tensor:
        ordered, order = values.sort(dim=0)
        below = weights.expand_as(values).gather(0, order).cumsum(0)
        place = (below < below[-1:] / 2).sum(0, keepdim=True).clamp_max(len(values) - 1)
        return ordered.gather(0, place).squeeze(0)


class Middle(Protocol):
    """Of each number the middle of the clients' values, (K, ...), under weights of that shape."""

    def __call__(self, values: Tensor, weights: Tensor) -> Tensor: ...


def by_number(batches: Iterable[Batch], middle: Middle) -> dict[str, Tensor]:
    """A model whose numbers are each the middle of the clients' values of it."""
    held = list(batches)
    model = {}
    for name in held[0][0]:
        updates = [update for carriers, _ in held for update in carriers[name].unbind()]
        if name in held[0][1]:
            weights = torch.cat([moments[name] for _, moments in held]).double() + EPS
        else:
            weights = torch.ones(len(updates), 1, dtype=torch.float64)
        model[name] = torch.cat(
            [
                middle(block, weights.view(len(updates), *[1] * (block.ndim - 2), -1))
                for block in rows(updates)
            ]
        )
    return model


def rows(updates: list[LowRank | Tensor]) -> Iterator[Tensor]:
    """All clients' updates of a parameter, (K, rows, in), a few rows at a time."""
    first = updates[0]
    if isinstance(first, Tensor):
        height, width = first.shape[0], first[0].numel()
    else:
        height, width = first.left.shape[0], first.right.shape[1]
    step = max(1, BLOCK // (len(updates) * width))
    for begin in range(0, height, step):
        part = slice(begin, begin + step)
        yield torch.stack(
            [
                each[part].double()
                if isinstance(each, Tensor)
                else each.left[part].double() @ each.right.double()
                for each in updates
            ]
        )


def norms(carriers: Carrier) -> list[float]:
    """‖Δ‖ of each client's whole update; of factors √ tr(L^T L R R^T), without multiplying them out."""
    clients = zip(*(value.unbind() for value in carriers.values()), strict=True)
    return [math.sqrt(sum(map(_square, values))) for values in clients]


def _square(value: LowRank | Tensor) -> float:
    if isinstance(value, Tensor):
        return float(value.double().square().sum())
    left, right = value.left.double(), value.right.double()
    return max(0.0, float(((left.t() @ left) * (right @ right.t())).sum()))


def scaled(carriers: Carrier, factors: Tensor) -> dict[str, LowRank | Tensor]:
    """A multiple of each client's update; of factors the right one takes it, so it is exact."""

    def times(value: Tensor) -> Tensor:
        return value.double() * factors.view(-1, *[1] * (value.ndim - 1))

    return {
        name: LowRank(value.left, times(value.right))
        if isinstance(value, LowRank)
        else times(value)
        for name, value in carriers.items()
    }
