"""Personalised averages: each receiver has weights of its own for the uploaded models."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pace.merging import unbatched
from pace.params import Params
from pace.protocol import Messages, Uploads

COLUMNS = 2**13  # of a tensor that are mixed at once: they stay in the cache, seven times faster


def mixtures(uploads: Uploads, weights: Tensor, names: Params) -> Iterator[dict[str, Tensor]]:
    """W_i* = Σ_j A_ij W_j / Σ_j A_ij, in float64."""
    every, shares = Messages(uploads), weights / weights.sum(1, keepdim=True)
    mixed = {}
    for name, like in names.items():
        rows = torch.stack([upload[name] for upload in every]).flatten(1)
        parts = [(shares @ part.double()).float() for part in rows.split(COLUMNS, 1)]
        mixed[name] = torch.cat(parts, 1).view(-1, *like.shape)
    return unbatched(mixed)


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
