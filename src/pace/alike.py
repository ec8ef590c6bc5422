"""A consensus of its peers for each receiver, from what the server already holds. Not in the paper."""

from collections.abc import Iterable

import torch
from torch import Tensor

from pace.carrier import Carrier, LowRank
from pace.moments import EPS, Moments

SHARPNESS = 10.0
MOST = 0.5
BLOCK = 16  # uploads whose factors enter the sums in one product


def alike(moments: Tensor, sharpness: float = SHARPNESS, most: float = MOST) -> Tensor:
    """w_ij = softmax over j ≠ i of sharpness · cos(m_i, m_j), from (K, d) moments; rows sum to one.

    A client is not among its own peers: its own view is Local, which it has already. A federation of
    one has no other, and its peer is itself. No peer has more than `most` of the weight, so that
    nobody is sent another's update alone: a row beyond it is drawn towards equal weights.
    """
    if len(moments) == 1:
        return torch.ones(1, 1, dtype=torch.float64)
    directions = torch.nn.functional.normalize(moments.double(), dim=1)
    similarity = (directions @ directions.t()).fill_diagonal_(-torch.inf)
    weights = (sharpness * similarity).softmax(1)
    equal = (similarity > -torch.inf).double() / (len(moments) - 1)
    highest, fair = weights.amax(1, keepdim=True), 1 / (len(moments) - 1)
    too_much = (highest - most).clamp_min(0)
    towards = (too_much / (highest - fair).clamp_min(EPS)).clamp_max(1)
    return weights + towards * (equal - weights)


def views(uploads: Iterable[tuple[Carrier, Moments]], weights: Tensor) -> list[dict[str, Tensor]]:
    """RegMean with weights of its own for each receiver, a row of `weights` (receivers, K):

        Δ_i = (Σ_j w_ij Δ_j C_j) (Σ_j w_ij C_j)^-1,   C_j = diag(m_j + ε)

    With equal weights each is the `consensus`. Parameters without a moment take the weighted mean.
    """
    sums: dict[str, WeightedSums] = {}
    for place, (update, moments) in enumerate(uploads):
        for name, value in update.items():
            column = moments[name].double() + EPS if name in moments else None
            sums.setdefault(name, WeightedSums()).add(value, column, weights[:, place])
    means = {name: each.means() for name, each in sums.items()}
    return [{name: each[place] for name, each in means.items()} for place in range(len(weights))]


class WeightedSums:
    """Σ_j w_ij Δ_j C_j and Σ_j w_ij C_j of one parameter, for a few receivers at once."""

    def __init__(self) -> None:
        self.products: Tensor | float = 0.0  # (receivers, *shape)
        self.columns: Tensor | float = 0.0  # (receivers, in), or (receivers, 1)
        self.waiting: list[tuple[LowRank, Tensor | None, Tensor]] = []

    def add(self, update: LowRank | Tensor, column: Tensor | None, weights: Tensor) -> None:
        self.columns = self.columns + weights[:, None] * (1.0 if column is None else column)
        if isinstance(update, LowRank):
            self.waiting.append((update, column, weights))
            if len(self.waiting) == BLOCK:
                self.flush()
            return
        weighted = update.double() if column is None else update.double() * column
        self.products = self.products + weights.view(-1, *[1] * update.ndim) * weighted

    def flush(self) -> None:
        """[w_i1 L_1 … w_ib L_b] [R_1 C_1; …; R_b C_b] for every receiver i."""
        if not self.waiting:
            return
        left = torch.cat([update.left.double() for update, _, _ in self.waiting], dim=1)
        right = torch.cat(
            [
                update.right.double() * (1.0 if column is None else column)
                for update, column, _ in self.waiting
            ]
        )
        each = torch.cat(
            [
                weights[:, None].expand(-1, update.left.shape[1])
                for update, _, weights in self.waiting
            ],
            dim=1,
        )
        self.products = self.products + (left * each[:, None, :]) @ right
        self.waiting = []

    def means(self) -> Tensor:
        self.flush()
        assert isinstance(self.products, Tensor)  # something was added
        assert isinstance(self.columns, Tensor)
        below = self.columns.clamp_min(EPS)
        return self.products / below.view(len(below), *[1] * (self.products.ndim - 2), -1)
