"""Receiver-anchored correction (Section 4.3)."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from pace.merging.batches import runs
from pace.merging.carrier import RANK, Carrier, LowRank, dense, factorised, stack, truncate
from pace.merging.leading import leading
from pace.params import Params, add

EXTRA = 8  # directions of the consensus that are looked through beside a receiver's own


def correction(
    consensus: Params, own: Carrier, rank: int | None = RANK
) -> dict[str, LowRank | Tensor]:
    """Γ_i = P_r(Δ - own carrier): what receiver i is sent, and right for nobody else."""
    alone = {name: stack([value]) for name, value in own.items()}
    (batch,) = corrections(consensus, [alone], rank)
    return {name: value.unbind()[0] for name, value in batch.items()}


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
        self.shared = shared
        self.rank = rank
        if rank is not None and factorised(shared, rank):
            self.tall = shared.shape[0] > shared.shape[1]
            self.wide = (shared.t() if self.tall else shared).double()
            self.gram = self.wide @ self.wide.t()
            self.first = (self.gram @ self.gram)[:, :EXTRA]

    def __call__(self, owns: LowRank | Tensor) -> LowRank | Tensor:
        if isinstance(owns, Tensor) or self.rank is None:
            plain = self.shared - (owns if isinstance(owns, Tensor) else owns.dense())
            if self.rank is None or not factorised(self.shared, self.rank):
                return plain
            return stack([truncate(each, self.rank) for each in plain])
        flat = owns.flipped() if self.tall else owns
        left, right = flat.left.double(), flat.right  # (many, short, r), (many, r, long)
        basis = leading(*self.grams(left, right), self.rank)
        onto = basis.mT @ left
        rest = torch.empty(len(basis), self.rank, self.wide.shape[1], dtype=right.dtype)
        for some in runs(right):
            ahead = (basis[some].mT.flatten(0, 1) @ self.wide).view(-1, *rest.shape[1:])
            rest[some] = ahead.baddbmm_(onto[some], right[some].double(), alpha=-1)
        made = LowRank(basis.to(flat.left.dtype), rest)
        return made.flipped().orthonormal() if self.tall else made

    def grams(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """The Gram matrices, and where to look for their eigenvectors."""
        half = torch.empty_like(left)
        for some in runs(right):
            exact = right[some].double()
            shadow = (exact.flatten(0, 1) @ self.wide.t()).view(*exact.shape[:2], -1).mT
            half[some] = torch.baddbmm(shadow, left[some], exact @ exact.mT, alpha=-0.5)
        pair, swapped = torch.cat([half, left], 2), torch.cat([left, half], 2)
        grams = torch.baddbmm(self.gram.expand(len(left), -1, -1), pair, swapped.mT, alpha=-1)
        return grams, torch.cat([left, self.first.expand(len(left), -1, -1)], 2)


def apply(local: Params, correction: Carrier) -> dict[str, Tensor]:
    """W_E = W_L + Γ_i: the External model, anchored to the complete Local one."""
    return add(local, dense(correction))
