"""Personalised averages: each receiver has weights of its own for the uploaded models."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pace.params import Params
from pace.protocol import Uploads

AT_ONCE = 2**16  # numbers of all receivers' sums that are added to together


def mixtures(uploads: Uploads, weights: Tensor, names: Params) -> Iterator[dict[str, Tensor]]:
    """W_i* = Σ_j A_ij W_j / Σ_j A_ij in float64, each sum in the order of the uploads.

    A few columns of all models are mixed for all receivers at a time, so that sums stay in a cache.
    """
    flat = [torch.cat([upload[name].ravel() for name in names]) for upload in uploads]
    blocks = torch.stack(flat).split(max(1, AT_ONCE // len(weights)), 1)
    mixed = torch.cat([_mixed(block.double(), weights.double()) for block in blocks], 1)
    sizes = [value.numel() for value in names.values()]
    for row in mixed:
        parts = zip(names.items(), row.split(sizes), strict=True)
        yield {name: part.view(value.shape).clone() for (name, value), part in parts}


def _mixed(columns: Tensor, weights: Tensor) -> Tensor:
    """Some columns of every W_i*, (receivers, columns)."""
    totals = torch.zeros_like(weights[:, 0])
    sums = columns.new_zeros(len(weights), columns.shape[1])
    for row, share in zip(columns, weights.t(), strict=True):
        sums += share[:, None] * row
        totals += share
    return (sums / totals[:, None]).float()


def gathered(uploads: Uploads, name: str) -> Tensor:
    """One small tensor of every upload, as rows in float64."""
    return torch.stack([upload[name].double() for upload in uploads])


def cosines(signatures: Tensor) -> Tensor:
    """S_ij = cos(signature_i, signature_j)."""
    unit = normalize(signatures)
    return unit @ unit.t()


def attention(signatures: Tensor, sharpness: float) -> Tensor:
    """A_ij = exp(τ S_ij) / Σ_k exp(τ S_ik), oneself included."""
    return (sharpness * cosines(signatures)).softmax(1)
