"""Receiver-anchored correction (Section 4.3)."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from pace.carrier import RANK, Carrier, LowRank, compress, dense, factorised
from pace.leading import leading
from pace.params import Params, add

BLOCK = 32  # receivers whose corrections are computed together


def correction(
    consensus: Params, own: Carrier, rank: int | None = RANK
) -> dict[str, LowRank | Tensor]:
    """Γ_i = P_r(Δ - own carrier): what receiver i is sent, and right for nobody else."""
    return next(corrections(consensus, [own], rank))


def corrections(
    consensus: Params, owns: Iterable[Carrier], rank: int | None = RANK
) -> Iterator[dict[str, LowRank | Tensor]]:
    """The correction of each receiver in turn, a block of them at a time."""
    differences = {name: Difference(value, rank) for name, value in consensus.items()}
    remaining = iter(owns)
    while block := list(islice(remaining, BLOCK)):
        found = {
            name: difference([own[name] for own in block])
            for name, difference in differences.items()
        }
        for place in range(len(block)):
            yield {name: parts[place] for name, parts in found.items()}


class Difference:
    """P_r(Δ - own) for one parameter, with what depends on Δ alone computed once.

        (Δ - L R)(Δ - L R)^T = Δ Δ^T - Z - Z^T,   Z = (Δ R^T - L R R^T / 2) L^T

    So the Gram matrix of the short side needs the factors of the own carrier and no dense update;
    P_r is then U_r (U_r^T Δ - U_r^T L R), with U_r its leading eigenvectors (see `truncate`).
    """

    def __init__(self, shared: Tensor, rank: int | None) -> None:
        self.shared = shared
        self.rank = rank
        if rank is not None and factorised(shared, rank):
            self.tall = shared.shape[0] > shared.shape[1]
            self.wide = (shared.t() if self.tall else shared).double()
            self.gram = self.wide @ self.wide.t()

    def __call__(self, owns: Sequence[LowRank | Tensor]) -> list[LowRank | Tensor]:
        factors = [own for own in owns if isinstance(own, LowRank)]
        if self.rank is None or len(factors) < len(owns):
            plain = [own.dense() if isinstance(own, LowRank) else own for own in owns]
            return [compress({"": self.shared - own}, self.rank)[""] for own in plain]
        flat = [each.flipped() for each in factors] if self.tall else factors
        left = torch.stack([each.left for each in flat]).double()  # (block, short, r)
        right = torch.stack([each.right for each in flat]).double()  # (block, r, long)
        shadow = (right.flatten(0, 1) @ self.wide.t()).view(*right.shape[:2], -1).mT
        half = (shadow - left @ (right @ right.mT) / 2) @ left.mT
        basis = leading(self.gram - half - half.mT, self.rank)
        ahead = (basis.mT.flatten(0, 1) @ self.wide).view(len(flat), self.rank, -1)
        rest = (ahead - basis.mT @ left @ right).to(self.shared.dtype)
        made = map(LowRank, basis.to(self.shared.dtype), rest)
        return [each.flipped().orthonormal() for each in made] if self.tall else list(made)


def apply(local: Params, correction: Carrier) -> dict[str, Tensor]:
    """W_E = W_L + Γ_i: the External model, anchored to the complete Local one."""
    return add(local, dense(correction))
