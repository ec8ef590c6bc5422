"""Receiver-anchored correction (Section 4.3), and how far it may go (not in the paper)."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from pace.merging.carrier import RANK, Carrier, LowRank, dense, factorised, runs
from pace.params import Params, add

EXTRA = 8  # directions of the consensus that are looked through beside a receiver's own
POWERS = 4  # of the matrix in a round; more would drown weak directions in rounding
ROUNDS = 4  # after each of which the answer is checked; trained updates take one to four
TOLERANCE = 1e-9  # of the residual, against the gap that separates the wanted from the rest
ROUNDING = 1e-12  # of a sum of squares, generously
LONGEST = 1.25  # times the median column of one's own update
ENOUGH = 0.05  # share of the validation nodes that see a column: evidence enough for the longest


def correction(consensus: Params, own: Carrier, rank: int | None = RANK) -> Carrier:
    """Γ_i = P_r(Δ - own carrier): what receiver i is sent, and right for i alone."""
    (batch,) = corrections(consensus, [{name: value[None] for name, value in own.items()}], rank)
    return {name: value[0] for name, value in batch.items()}


def corrections(
    consensus: Params, batches: Iterable[Carrier], rank: int | None = RANK
) -> Iterator[dict[str, LowRank | Tensor]]:
    """The correction of each receiver, for own carriers that come in batches."""
    differences = {name: Difference(value, rank) for name, value in consensus.items()}
    for owns in batches:
        yield {name: difference(owns[name]) for name, difference in differences.items()}


class Difference:
    """P_r(Δ - own) for one parameter of many receivers, with what depends on Δ alone computed once.

        (Δ - L R)(Δ - L R)^T = Δ Δ^T - Z - Z^T,   Z = (Δ R^T - L R R^T / 2) L^T

    So the Gram matrix of the short side needs the factors of the own carrier and no dense update;
    P_r is then U_r (U_r^T Δ - U_r^T L R), with U_r its leading eigenvectors (see `truncate`). These
    are looked for near the span of L and of Δ's own leading directions: Δ - L R maps to little else.
    All is computed in float64, since Δ and L R may cancel, and given in the precision of the own.
    """

    def __init__(self, shared: Tensor, rank: int | None) -> None:
        self.shared, self.rank = shared, rank
        if rank is not None and factorised(shared, rank):
            self.tall = shared.shape[0] > shared.shape[1]
            self.wide = (shared.t() if self.tall else shared).double()
            self.gram = self.wide @ self.wide.t()
            self.first = (self.gram @ self.gram)[:, :EXTRA]

    def __call__(self, owns: LowRank | Tensor) -> LowRank | Tensor:
        if isinstance(owns, Tensor):
            return self.shared - owns
        assert self.rank is not None  # there are factors
        flat = owns.flipped() if self.tall else owns
        left, right = flat.left.double(), flat.right  # (many, short, r), (many, r, long)
        basis = leading(*self.grams(left, right), self.rank)
        onto = basis.mT @ left
        rest = torch.empty(len(basis), self.rank, self.wide.shape[1], dtype=right.dtype)
        for run in runs(right):
            ahead = (basis[run].mT.flatten(0, 1) @ self.wide).view(-1, *rest.shape[1:])
            rest[run] = ahead.baddbmm_(onto[run], right[run].double(), alpha=-1)
        factors = LowRank(basis.to(flat.left.dtype), rest)
        return factors.flipped().orthonormal() if self.tall else factors

    def grams(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """The Gram matrices, and where to look for their eigenvectors."""
        half = torch.empty_like(left)
        for run in runs(right):
            exact = right[run].double()
            shadow = (exact.flatten(0, 1) @ self.wide.t()).view(*exact.shape[:2], -1).mT
            half[run] = torch.baddbmm(shadow, left[run], exact @ exact.mT, alpha=-0.5)
        pair, swapped = torch.cat([half, left], 2), torch.cat([left, half], 2)
        grams = torch.baddbmm(self.gram.expand(len(left), -1, -1), pair, swapped.mT, alpha=-1)
        return grams, torch.cat([left, self.first.expand(len(left), -1, -1)], 2)


def apply(local: Params, correction: Carrier) -> dict[str, Tensor]:
    """W_E = W_L + Γ_i: the External model, anchored to the complete Local one."""
    return add(local, dense(correction))


def leading(grams: Tensor, start: Tensor, rank: int) -> Tensor:
    """The `rank` leading eigenvectors of each of (many, n, n), largest first.

    By orthogonal iteration from `start` (many, n, more than rank), which is the faster the more of
    the answer it spans: a sixth of the time of all eigenvectors. Every answer is checked, and where
    the spectrum has no gap to speak of, or a large eigenvalue may be outside of what was looked
    through, all eigenvectors are computed after all. What one matrix gets does not depend on the
    others.
    """
    if 2 * start.shape[-1] > grams.shape[-1]:
        return _all(grams, rank)
    vectors, basis = grams.new_empty(*start.shape[:2], rank), start
    remaining = torch.arange(len(grams))
    for _ in range(ROUNDS):
        basis, vectors[remaining], settled = iterated(grams, basis, rank)
        if settled.all():
            return vectors
        grams, basis, remaining = grams[~settled], basis[~settled], remaining[~settled]
    vectors[remaining] = _all(grams, rank)
    return vectors


def iterated(grams: Tensor, basis: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """A basis nearer to the answer, the best `rank` vectors in it, and which are to be trusted."""
    for _ in range(POWERS):
        basis = grams @ basis
    basis = torch.linalg.qr(basis).Q
    image = grams @ basis
    values, inner = torch.linalg.eigh(basis.mT @ image)
    chosen, largest = inner[..., -rank:].flip(-1), values[..., -rank:].flip(-1)
    vectors = basis @ chosen
    residual = torch.linalg.matrix_norm(image @ chosen - vectors * largest[..., None, :])
    gap = values[..., -rank] - values[..., -rank - 1]
    # |G - G B B^T|² = |G|² - |G B|² bounds the square of every eigenvalue outside of B.
    whole, inside = (torch.linalg.matrix_norm(matrix).square() for matrix in (grams, image))
    sure = whole * (1 + ROUNDING) - inside <= values[..., -rank].clamp_min(0).square()
    return image, vectors, sure & (residual <= TOLERANCE * gap)


def _all(grams: Tensor, rank: int) -> Tensor:
    vectors: Tensor = torch.linalg.eigh(grams).eigenvectors
    return vectors[..., -rank:].flip(-1)


def seen(rows: Tensor) -> Tensor:
    """The share of nodes whose input in a column is not zero, from (nodes, …, columns)."""
    nonzero = (rows != 0).flatten(1, -2).any(1) if rows.ndim > 2 else rows != 0
    return nonzero.double().sum(0) / max(1, len(rows))


def column_factors(correction: Tensor, own: Tensor, share_seen: Tensor) -> Tensor:
    """What each column is multiplied by, in [0, 1], so that none is longer than its evidence allows.

        ‖Γ_c‖ · factor_c ≤ 1.25 · median_k ‖U_k‖ · min(1, seen_c / 5 %)

    U is the receiver's own update, its median over columns that the receiver sees: no other site can
    raise it. Where the receiver sees nothing or learnt nothing, nothing is taken.
    """
    lengths, learnt = (matrix.double().norm(dim=0) for matrix in (correction, own))
    usual = learnt[(share_seen > 0) & (learnt > 0)]
    longest = LONGEST * usual.median() if len(usual) else learnt.new_zeros(())
    limit = longest * (share_seen / ENOUGH).clamp_max(1)
    return torch.where(lengths > limit, limit / lengths, 1.0)
