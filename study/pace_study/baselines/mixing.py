"""Personalised averages: each receiver has weights of its own for the uploaded models."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pace.merging import unbatched
from pace.params import Params
from pace.protocol import Messages, Uploads


def mixtures(uploads: Uploads, weights: Tensor, names: Params) -> Iterator[dict[str, Tensor]]:
    """W_i* = Σ_j A_ij W_j / Σ_j A_ij, in float64."""
    every, shares = Messages(uploads), weights / weights.sum(1, keepdim=True)
    mixed = {name: torch.tensordot(shares, gathered(every, name), 1) for name in names}
    return unbatched({name: value.float() for name, value in mixed.items()})


def gathered(uploads: Uploads, name: str) -> Tensor:
    """One tensor of every upload, in float64, with a first dimension for the clients."""
    return torch.stack([upload[name].double() for upload in uploads])


def cosines(signatures: Tensor) -> Tensor:
    """S_ij = cos(signature_i, signature_j)."""
    unit = normalize(signatures)
    return unit @ unit.t()


def attention(signatures: Tensor, sharpness: float) -> Tensor:
    """A_ij = exp(τ S_ij) / Σ_k exp(τ S_ik), oneself included."""
    return (sharpness * cosines(signatures)).softmax(1)
