"""Receiver-anchored correction (Section 4.3)."""

from torch import Tensor

from pace.carrier import RANK, Carrier, LowRank, compress, dense
from pace.params import Params, add, subtract


def correction(
    consensus: Params, own: Carrier, rank: int | None = RANK
) -> dict[str, LowRank | Tensor]:
    """Γ_i = P_r(Δ - own carrier): what receiver i is sent, and right for nobody else."""
    return compress(subtract(consensus, dense(own)), rank)


def apply(local: Params, correction: Carrier) -> dict[str, Tensor]:
    """W_E = W_L + Γ_i: the External model, anchored to the complete Local one."""
    return add(local, dense(correction))
