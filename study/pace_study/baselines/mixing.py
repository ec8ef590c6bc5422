"""Personalised averages: each receiver has weights of its own for the uploaded models."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pace.params import Params
from pace.protocol import Uploads


def mixtures(uploads: Uploads, weights: Tensor, names: Params) -> Iterator[dict[str, Tensor]]:
    """W_i* = Σ_j A_ij W_j / Σ_j A_ij, a pass over the uploads for each receiver, in float64."""
    for row in weights.tolist():
        total, sums = 0.0, dict[str, Tensor]()
        for upload, weight in zip(uploads, row, strict=True):
            total += weight
            for name in names:
                sums[name] = sums.get(name, 0) + weight * upload[name].double()
        yield {name: (value / total).float() for name, value in sums.items()}


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
