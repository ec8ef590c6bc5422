"""One step of Adam or SGD: of values in a row, and along a gradient that is never written down."""

# ruff: noqa: N803 - Triton's constants are written in capitals

from __future__ import annotations

from typing import Any, Protocol

import torch
import triton
import triton.language as tl
from torch import Tensor

from pace.training.gpu.kernels.sparse import Sparse, gathered


class Optimiser(Protocol):
    """What a kernel reads of `pace.training.optimiser.DeviceOptimiser`."""

    recipe: Any
    values: Tensor
    start: Tensor
    slope: Tensor
    mean: Tensor
    square: Tensor
    corrections: Tensor
    step_count: Tensor
    pull: float
    betas: tuple[float, float]
    eps: float


def rows_step(matrix: Sparse, dense: Tensor, optimiser: Optimiser) -> None:
    """The step that the gradient matrix @ dense asks of the first values of `optimiser`.

    Values whose row of `matrix` is empty stay where they are.
    """
    width = dense.shape[1]
    across = min(512, triton.next_power_of_2(width))
    entries = 2 if len(matrix.values) < 8 * matrix.filled else 4
    _rows_step[(matrix.filled, triton.cdiv(width, across))](
        *(matrix.order, matrix.starts, matrix.columns, matrix.values, dense),
        *state(optimiser),
        *(matrix.filled, width, 1, entries, across),
        **how(optimiser),
        num_warps=max(1, across // 128),
    )


def flat_step(optimiser: Optimiser, since: int) -> None:
    """A step of every value from the place `since` on, by the slopes written last."""
    count = optimiser.values.numel() - since
    _flat_step[(triton.cdiv(count, 1024),)](
        optimiser.slope, *state(optimiser), since, count, 1024, **how(optimiser)
    )


def idle(optimiser: Optimiser, count: int) -> Tensor:
    """Where the first `count` values of the start end if their gradient is zero in every step."""
    out = torch.empty(count, device=optimiser.start.device)
    _idle[(triton.cdiv(count, 1024),)](
        *(out, optimiser.start, optimiser.corrections, optimiser.recipe.epochs, count, 1024),
        **how(optimiser),
    )
    return out


def state(optimiser: Optimiser) -> tuple[Tensor, ...]:
    memory = (optimiser.mean, optimiser.square, optimiser.start)
    return (optimiser.values, *memory, optimiser.corrections, optimiser.step_count)


def how(optimiser: Optimiser) -> dict[str, float | bool]:
    recipe = optimiser.recipe
    return {
        "rate": recipe.rate,
        "decay": recipe.decay,
        "momentum": recipe.momentum,
        "pull": optimiser.pull,
        "ADAM": recipe.optimiser == "adam",
        "PULLED": optimiser.pull != 0,
        "BETA1": optimiser.betas[0],
        "BETA2": optimiser.betas[1],
        "EPS": optimiser.eps,
    }


@triton.jit(do_not_specialize=["count"])
def _rows_step(
    order, starts, columns, values, dense,
    models, means, squares, anchors, corrections, taken,
    count, width, R: tl.constexpr, E: tl.constexpr, ACROSS: tl.constexpr,
    rate, decay, momentum, pull, ADAM: tl.constexpr, PULLED: tl.constexpr,
    BETA1: tl.constexpr, BETA2: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0) * R + tl.arange(0, R)
    there = place < count
    row = tl.load(order + place, mask=there, other=0)
    across = tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    slope = gathered(row, there, starts, columns, values, dense, width, across, E)
    at = row.to(tl.int64)[:, None] * width + across[None, :]
    _step(
        at, there[:, None] & (across < width)[None, :], slope,
        models, means, squares, anchors, corrections, taken,
        rate, decay, momentum, pull, ADAM, PULLED, BETA1, BETA2, EPS,
    )  # fmt: skip


@triton.jit(do_not_specialize=["since", "count"])
def _flat_step(
    slopes, models, means, squares, anchors, corrections, taken,
    since, count, BLOCK: tl.constexpr,
    rate, decay, momentum, pull, ADAM: tl.constexpr, PULLED: tl.constexpr,
    BETA1: tl.constexpr, BETA2: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = place < count
    at = since + place
    slope = tl.load(slopes + at, mask=mask, other=0.0)
    _step(
        at, mask, slope, models, means, squares, anchors, corrections, taken,
        rate, decay, momentum, pull, ADAM, PULLED, BETA1, BETA2, EPS,
    )  # fmt: skip


@triton.jit(do_not_specialize=["epochs", "count"])
def _idle(
    out, anchors, corrections, epochs, count, BLOCK: tl.constexpr,
    rate, decay, momentum, pull, ADAM: tl.constexpr, PULLED: tl.constexpr,
    BETA1: tl.constexpr, BETA2: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    start = tl.load(anchors + at, mask=mask, other=0.0)
    value, nothing = start, start * 0.0
    mean, square = nothing, nothing
    for now in range(epochs):
        first, second = tl.load(corrections + 2 * now), tl.load(corrections + 2 * now + 1)
        value, mean, square = _stepped(
            value, mean, square, nothing, start, first, second,
            rate, decay, momentum, pull, ADAM, PULLED, BETA1, BETA2, EPS,
        )  # fmt: skip
    tl.store(out + at, value, mask=mask)


@triton.jit
def _step(
    at, mask, slope, values, means, squares, starts, corrections, taken,
    rate, decay, momentum, pull, ADAM: tl.constexpr, PULLED: tl.constexpr,
    BETA1: tl.constexpr, BETA2: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    """One step of the values at these places."""
    now = tl.load(taken).to(tl.int32)
    first, second = tl.load(corrections + 2 * now), tl.load(corrections + 2 * now + 1)
    value = tl.load(values + at, mask=mask, other=0.0)
    mean = tl.load(means + at, mask=mask, other=0.0)
    square = tl.load(squares + at, mask=mask, other=0.0) if ADAM else mean
    start = tl.load(starts + at, mask=mask, other=0.0) if PULLED else value
    value, mean, square = _stepped(
        value, mean, square, slope, start, first, second,
        rate, decay, momentum, pull, ADAM, PULLED, BETA1, BETA2, EPS,
    )  # fmt: skip
    tl.store(values + at, value, mask=mask)
    tl.store(means + at, mean, mask=mask)
    if ADAM:
        tl.store(squares + at, square, mask=mask)


@triton.jit
def _stepped(
    value, mean, square, slope, start, first, second,
    rate, decay, momentum, pull, ADAM: tl.constexpr, PULLED: tl.constexpr,
    BETA1: tl.constexpr, BETA2: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    """A value and its memory after one step; `first` and `second` correct Adam's bias."""
    if PULLED:
        slope += pull * (value - start)
    slope += decay * value
    if ADAM:
        mean += (1 - BETA1) * (slope - mean)
        square = BETA2 * square + (1 - BETA2) * slope * slope
        value -= rate / first * tl.div_rn(mean, tl.div_rn(tl.sqrt_rn(square), second) + EPS)
    else:
        mean = momentum * mean + slope
        value -= rate * mean
    return value, mean, square
