"""Where parameters start, as PyG starts them; without a generator, shapes alone."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def glorot(shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
    """Uniform on ± sqrt(6 / (in + out)), in and out the last two sizes."""
    return uniform(shape, math.sqrt(6 / sum(shape[-2:])), generator)


def uniform(shape: tuple[int, ...], bound: float, generator: torch.Generator | None) -> Tensor:
    """Uniform on ± bound."""
    if generator is None:
        return torch.empty(shape, device="meta")
    return (torch.rand(shape, generator=generator) * 2 - 1) * bound


def zeros(width: int, generator: torch.Generator | None) -> Tensor:
    return torch.zeros(width, device="meta" if generator is None else "cpu")


def linear(
    name: str, fan_in: int, fan_out: int, generator: torch.Generator | None, *, bias: bool = True
) -> dict[str, Tensor]:
    """torch's linear layer: weight (out, in) and bias uniform on ± 1/sqrt(in)."""
    bound = 1 / math.sqrt(fan_in)
    layer = {f"{name}.weight": uniform((fan_out, fan_in), bound, generator)}
    if bias:
        layer[f"{name}.bias"] = uniform((fan_out,), bound, generator)
    return layer
