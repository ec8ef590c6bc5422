"""Personalised averages: each receiver has weights of its own for the uploaded models."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pace.params import Params
from pace.protocol import Uploads


def mixtures(uploads: Uploads, weights: Tensor, names: Params) -> Iterator[dict[str, Tensor]]:
    """W_i* = Σ_j A_ij W_j / Σ_j A_ij, receiver by receiver: a pass over the uploads for each."""
    for row in weights.tolist():
        yield weighted_mean(zip(uploads, row, strict=True), names)


def weighted_mean(models: Iterable[tuple[Params, float]], names: Params) -> dict[str, Tensor]:
    """Σ_i p_i W_i over the named parameters, p_i = weight_i / Σ weights; a running sum in float64."""
    total, sums = 0.0, dict[str, Tensor]()
    for model, weight in models:
        total += weight
        for name in names:
            value = model[name].double()
            if name not in sums:
                sums[name] = torch.zeros_like(value)
            sums[name] += weight * value
    return {name: (value / total).float() for name, value in sums.items()}


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
