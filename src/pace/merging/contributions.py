"""What each site brought to a ridge regression, from what the sites sent and without their data.

    L_k(W) = n_k - 2 tr(WᵀB_k) + tr(WᵀG_kW)      the squared loss of any W on site k's training rows
    W_S    = (Σ_{k in S} G_k + λI)⁻¹ Σ_{k in S} B_k    what the sites of a roll S learn together
    v(S)   = Σ_k (n_k - L_k(W_S)) / Σ_k n_k            the share of all labels that it explains; v(∅) = 0

Where sites sent a few rows in place of theirs, G_k is what these rows give: too small by Hᵀ(1 - QᵀQ)H
(`ridge.condensed`), and L_k by tr(Wᵀ(G_k - ZᵀZ)W), at most what the left-out rows' squared lengths give.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Self

import torch
from torch import Tensor

from pace.merging.ridge import solve_gram

ROLLS = 2**10  # that are solved at most: all of ten sites, else those of some permutations
BUDGET = 2.5e11  # rolls · columns³ at most: beyond, fewer permutations
TOGETHER = 8  # rolls whose sums are added up in one product
SMALLEST = 1e-12  # of the eigenvalues of the rows, against the largest


@dataclass(frozen=True, eq=False)
class SiteSums:
    """What sites add to one regression, in coordinates of all that they sent; float64."""

    grams: Tensor  # G_k, (sites, d, d)
    sums: Tensor  # B_k, (sites, d, classes)
    nodes: Tensor  # n_k, (sites,)

    @classmethod
    def of_rows(cls, rows: Tensor, sums: Tensor, nodes: Tensor) -> Self:
        """From F_k with F_kᵀF_k = G_k, (sites, rows, d), in a basis of their span and that of B_k."""
        rows, sums = rows.double(), sums.double()
        spanned = torch.cat([rows.flatten(0, 1), sums.mT.flatten(0, 1)])
        if len(spanned) < spanned.shape[1]:
            values, vectors = torch.linalg.eigh(spanned @ spanned.T)
            kept = values > SMALLEST * values[-1]
            basis = spanned.T @ (vectors[:, kept] / values[kept].sqrt())
            rows, sums = rows @ basis, basis.T @ sums
        return cls(rows.mT @ rows, sums, nodes.double())

    def losses(self, answer: Tensor) -> Tensor:
        """L_k(W) of each site."""
        products = (self.grams @ answer - 2 * self.sums) * answer
        return self.nodes + products.sum((1, 2))

    def answers(self, rolls: Tensor, strength: float) -> Iterator[Tensor]:
        """W_S of each roll S, a row of (rolls, sites): d³/3 operations each."""
        for batch in rolls.double().split(TOGETHER):
            parts = (torch.tensordot(batch, part, 1) for part in (self.grams, self.sums))
            for gram, sums in zip(*parts, strict=True):
                yield solve_gram(gram, sums, [strength])[0]

    def values(self, rolls: Tensor, strength: float) -> Tensor:
        """v(S) of each roll S, (rolls,)."""
        gram, sums = self.grams.sum(0), self.sums.sum(0)
        answers = self.answers(rolls, strength)
        gained = [((2 * sums - gram @ answer) * answer).sum() for answer in answers]
        return torch.stack(gained) / self.nodes.sum().clamp_min(1)


@dataclass(frozen=True)
class Contributions:
    """What each site brought to one regression."""

    alone: tuple[float, ...]
    """L_k / n_k of what the others learn without k: k's rows are all new to it."""
    helps: tuple[tuple[float, ...], ...]
    """A row j a giver, a column k a receiver: how much L_k / n_k rises without j, of what others than
    k learn, so that k's rows are new to it; in the diagonal, how much it rises without k's own rows."""
    shapley: tuple[float, ...]
    """Their parts of v, which sum to v of all sites."""
    error: float
    """The largest standard error of these parts; 0 where all rolls were solved."""


def left_out_loss(parts: SiteSums, strength: float) -> Tensor:
    """L_k / n_k of the regression of all sites but k, for each site k."""
    losses = [_without(parts, strength, site)[site] for site in range(len(parts.nodes))]
    return torch.stack(losses) / parts.nodes.clamp_min(1)


def _without(parts: SiteSums, strength: float, *absent: int) -> Tensor:
    """L_k of what all sites but these learn."""
    roll = torch.ones(1, len(parts.nodes))
    roll[:, absent] = 0
    return parts.losses(*parts.answers(roll, strength))


def weigh_sites(parts: SiteSums, strength: float, seed: int = 0) -> Contributions:
    """All of it, from 2^K solutions up to ten sites and from permutations beyond.

    Costs d³/3 operations a solution, of at most `BUDGET`; ten sites and 600 columns take 7 · 10¹⁰, some
    seconds of a core.
    """
    nodes, alone = parts.nodes.clamp_min(1), left_out_loss(parts, strength)
    helps = torch.diag(alone - _without(parts, strength) / nodes)
    for pair in combinations(range(len(nodes)), 2):
        losses = _without(parts, strength, *pair) / nodes
        for giver, receiver in (pair, reversed(pair)):
            helps[giver, receiver] = losses[receiver] - alone[receiver]
    shapley, error = shapley_values(parts, strength, seed)
    rows = tuple(map(tuple, helps.tolist()))
    return Contributions(tuple(alone.tolist()), rows, tuple(shapley.tolist()), error)


def shapley_values(parts: SiteSums, strength: float, seed: int = 0) -> tuple[Tensor, float]:
    """φ_j = Σ_S |S|! (K - |S| - 1)! / K! (v(S + j) - v(S)); and the largest standard error."""
    sites, columns = parts.sums.shape[:2]
    most = min(ROLLS, int(BUDGET / max(1, columns) ** 3))
    if 2**sites <= most:
        rolls = torch.cartesian_prod(*[torch.tensor([False, True])] * sites).view(-1, sites)
        sizes = rolls.sum(1, keepdim=True) - rolls.long()  # size of the roll that a site joins
        ways = [sites * math.comb(sites - 1, size) for size in range(sites)]
        weights = 1 / torch.tensor(ways, dtype=torch.float64)[sizes]
        signed = torch.where(rolls, weights, -weights)
        return parts.values(rolls, strength) @ signed, 0.0
    generator = torch.Generator().manual_seed(seed)
    count = max(2, most // sites)
    orders = [torch.randperm(sites, generator=generator) for _ in range(count)]
    ranks = torch.stack(orders).argsort(1)  # when each site joins
    rolls = ranks[:, None] <= torch.arange(sites)[:, None]  # (count, joined, sites)
    values = parts.values(rolls.flatten(0, 1), strength).view(count, sites)
    gained = values.diff(dim=1, prepend=values.new_zeros(count, 1)).gather(1, ranks)
    return gained.mean(0), float((gained.std(0) / count**0.5).max())
