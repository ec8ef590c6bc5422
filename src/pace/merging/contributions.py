"""What each site brought to a ridge regression, from what the sites sent and without their data.

    L_k(W) = n_k - 2 tr(WᵀB_k) + tr(WᵀG_kW)      the squared loss of any W on site k's training rows
    W_S    = (Σ_{k in S} G_k + λI)⁻¹ Σ_{k in S} B_k    what the sites of a roll S learn together
    v(S)   = Σ_k (n_k - L_k(W_S)) / Σ_k n_k            the share of all labels that it explains; v(∅) = 0

Where sites sent rows that stand for theirs, G_k is what these rows give: too small by Hᵀ(1 - QᵀQ)H
(`ridge.condensed`), and L_k by tr(Wᵀ(G_k - ZᵀZ)W), at most what the left-out rows' squared lengths give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

import torch
from torch import Tensor

from pace.merging.ridge import solve_gram

EXACT = 10  # sites up to which all 2^K rolls are solved
ROLLS = 1024  # that are solved for more sites, in permutations
SMALLEST = 1e-12  # of the eigenvalues of the rows, against the largest


@dataclass(frozen=True, eq=False)
class SiteSums:
    """What sites add to one regression, in coordinates of all that they sent; float64."""

    grams: Tensor  # G_k, (sites, d, d)
    sums: Tensor  # B_k, (sites, d, classes)
    nodes: Tensor  # n_k, (sites,)

    @classmethod
    def of_rows(cls, rows: Tensor, sums: Tensor, nodes: Tensor) -> SiteSums:
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

    def answer(self, roll: Sequence[bool], strength: float) -> Tensor:
        """W_S of a roll S."""
        present = torch.tensor(roll)
        gram, sums = (part[present].sum(0) for part in (self.grams, self.sums))
        return solve_gram(gram, sums, [strength])[0]

    def value(self, roll: Sequence[bool], strength: float) -> float:
        """v(S)."""
        gained = self.nodes - self.losses(self.answer(roll, strength))
        return float(gained.sum() / self.nodes.sum().clamp_min(1))


@dataclass(frozen=True, eq=False)
class Contributions:
    """What each site brought to one regression."""

    alone: Tensor
    """L_k / n_k of what the others learn without k: k's rows are all new to it; (sites,)."""
    helps: Tensor
    """A row j a giver, a column k a receiver: how much L_k / n_k rises without j, of what others than
    k learn, so that k's rows are new to it; in the diagonal, how much it rises without k's own rows."""
    shapley: Tensor
    """Their parts of v, which sum to v of all sites."""
    error: float
    """The largest standard error of these parts; 0 where all rolls were solved."""


def left_out_loss(parts: SiteSums, strength: float) -> Tensor:
    """L_k / n_k of the regression of all sites but k, for each site k."""
    losses = [_without(parts, strength, site)[site] for site in range(len(parts.nodes))]
    return torch.stack(losses) / parts.nodes.clamp_min(1)


def _without(parts: SiteSums, strength: float, *absent: int) -> Tensor:
    """L_k of what all sites but these learn."""
    roll = [site not in absent for site in range(len(parts.nodes))]
    return parts.losses(parts.answer(roll, strength))


def weigh_sites(parts: SiteSums, strength: float, seed: int = 0) -> Contributions:
    """All of it, from 2^K solutions up to ten sites and from permutations beyond."""
    nodes, alone = parts.nodes.clamp_min(1), left_out_loss(parts, strength)
    helps = torch.diag(alone - _without(parts, strength) / nodes)
    for pair in combinations(range(len(nodes)), 2):
        losses = _without(parts, strength, *pair) / nodes
        for giver, receiver in (pair, reversed(pair)):
            helps[giver, receiver] = losses[receiver] - alone[receiver]
    shapley, error = shapley_values(parts, strength, seed)
    return Contributions(alone, helps, shapley, error)


def shapley_values(parts: SiteSums, strength: float, seed: int = 0) -> tuple[Tensor, float]:
    """φ_j = Σ_S |S|! (K - |S| - 1)! / K! (v(S + j) - v(S)); and the largest standard error."""
    sites = len(parts.nodes)
    if sites <= EXACT:
        values = {
            roll: parts.value(roll, strength) for roll in product((False, True), repeat=sites)
        }
        shares = torch.zeros(sites, dtype=torch.float64)
        for roll, value in values.items():
            size = sum(roll)
            for site, present in enumerate(roll):
                before = size - present  # of the roll that this site joins
                weight = 1 / (sites * math.comb(sites - 1, before))
                shares[site] += weight * value if present else -weight * value
        return shares, 0.0
    generator, gains = torch.Generator().manual_seed(seed), []
    for _ in range(max(2, ROLLS // sites)):
        joined, last, gained = [False] * sites, 0.0, torch.zeros(sites, dtype=torch.float64)
        for site in torch.randperm(sites, generator=generator).tolist():
            joined[site] = True
            value = parts.value(joined, strength)
            gained[site], last = value - last, value
        gains.append(gained)
    drawn = torch.stack(gains)
    return drawn.mean(0), float((drawn.std(0) / len(drawn) ** 0.5).max())
