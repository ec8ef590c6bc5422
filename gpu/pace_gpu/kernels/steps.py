"""One step of Adam or SGD: of values in a row, and along a gradient that is never written down."""

# ruff: noqa: N803 - Triton's constants are written in capitals

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from pace.params import Params
from pace.training.optimiser import BETAS, Optimiser, Recipe
from pace.training.optimiser import EPS as ADAM_EPS
from pace_gpu.blocks import Chain, Sparse, beside
from pace_gpu.kernels.products import gathered

BETA1, BETA2, EPS = map(tl.constexpr, (*BETAS, ADAM_EPS))


class DeviceOptimiser(Optimiser):
    """The same steps by kernels of ours. The values of the first parameter may be stepped apart."""

    def __init__(self, start: Params, recipe: Recipe) -> None:
        super().__init__(start, recipe)
        self.apart = 0  # how many values are stepped elsewhere
        powers = torch.arange(1, recipe.epochs + 1, dtype=torch.float64)[:, None]
        first, second = (1 - torch.tensor(BETAS, dtype=torch.float64) ** powers).unbind(1)
        corrections = torch.stack([first, second.sqrt()], 1).float()
        self.corrections = corrections.to(self.values.device)  # of Adam's bias, by step
        memory = (self.values, self.mean, self.square, self.start)
        self.state = (*memory, self.corrections, self.step_count)
        kind = (recipe.optimiser == "adam", self.pull != 0)
        self.constants = (recipe.rate, recipe.decay, recipe.momentum, self.pull, *kind)

    def step(self) -> None:
        count = self.values.numel() - self.apart
        grid = (triton.cdiv(count, 1024),)
        _flat_step[grid](self.slope, *self.state, self.apart, count, 1024, *self.constants)
        self.step_count += 1

    def step_along(self, matrix: Sparse, dense: Tensor) -> None:
        """Step the first values along the gradient matrix @ dense, except those of empty rows."""
        width = dense.shape[1]
        across = min(512, triton.next_power_of_2(width))
        entries = 2 if len(matrix.values) < 8 * matrix.filled else 4
        _rows_step[(matrix.filled, triton.cdiv(width, across))](
            *(matrix.order, matrix.starts, matrix.columns, matrix.values, dense),
            *self.state,
            *(matrix.filled, width, 1, entries, across),
            *self.constants,
            num_warps=max(1, across // 128),
        )


class FusedFirstLayer:
    """P X in sparse factors whose gradient is stepped along at once, in place of being written down.

    An input column that is zero in a client's whole field has no gradient and is left out of the
    steps: it decays by itself, in the same way at every client.
    """

    def __init__(self, factors: Chain, optimiser: DeviceOptimiser) -> None:
        self.factors, self.optimiser = factors, optimiser
        optimiser.apart = optimiser.params["0.weight"].numel()
        assert isinstance(factors.right.matrix, Sparse)
        self.words = factors.right.matrix.transposed  # X^T: a row for each column of each client

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self.factors @ dense

    def back(self, gradient: Tensor, out: Tensor | None = None) -> Tensor:
        """Take the step that the gradient asks for."""
        spread = self.factors.left.back(gradient)
        self.optimiser.step_along(self.words, beside(spread).flatten(0, 1))
        return gradient

    def finish(self) -> None:
        """Put the idle columns where they end."""
        clients = self.factors.left.clients
        weight = self.optimiser.values[: self.optimiser.apart].view(clients, -1)
        recipe, start = self.optimiser.recipe, self.optimiser.start[: weight.shape[1]]
        idle = DeviceOptimiser({"weight": start}, recipe)  # whose gradient stays zero
        for _ in range(recipe.epochs):
            idle.step()
        active = (self.words.lengths > 0).view(clients, -1, 1)
        rows = weight.view(*active.shape[:2], -1)
        rows.copy_(torch.where(active, rows, idle.values.view(rows.shape[1:])))


@triton.jit(do_not_specialize=["count"])
def _rows_step(
    order, starts, columns, values, dense,
    models, means, squares, anchors, corrections, taken,
    count, width, R: tl.constexpr, E: tl.constexpr, ACROSS: tl.constexpr,
    rate, decay, momentum, pull, ADAM: tl.constexpr, PULLED: tl.constexpr,
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
        rate, decay, momentum, pull, ADAM, PULLED,
    )  # fmt: skip


@triton.jit(do_not_specialize=["since", "count"])
def _flat_step(
    slopes, models, means, squares, anchors, corrections, taken,
    since, count, BLOCK: tl.constexpr,
    rate, decay, momentum, pull, ADAM: tl.constexpr, PULLED: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = place < count
    at = since + place
    slope = tl.load(slopes + at, mask=mask, other=0.0)
    _step(
        at, mask, slope, models, means, squares, anchors, corrections, taken,
        rate, decay, momentum, pull, ADAM, PULLED,
    )  # fmt: skip


@triton.jit
def _step(
    at, mask, slope, values, means, squares, starts, corrections, taken,
    rate, decay, momentum, pull, ADAM: tl.constexpr, PULLED: tl.constexpr,
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
        rate, decay, momentum, pull, ADAM, PULLED,
    )  # fmt: skip
    tl.store(values + at, value, mask=mask)
    tl.store(means + at, mean, mask=mask)
    if ADAM:
        tl.store(squares + at, square, mask=mask)


@triton.jit
def _stepped(
    value, mean, square, slope, start, first, second,
    rate, decay, momentum, pull, ADAM: tl.constexpr, PULLED: tl.constexpr,
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
