"""What a layer adds to its products, for every client and seed."""

# ruff: noqa: N803 - Triton's constants are written in capitals

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def linear(messages: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    """S_k W_k^T for every client and seed; weights lie (clients, in, seeds, out)."""
    clients, rows, _ = messages.shape
    _, inner, seeds, outer = weight.shape
    _linear[(triton.cdiv(rows, 32), clients * seeds)](
        messages, weight, out, rows, seeds, inner, outer, 32, 32, block(outer), num_warps=2
    )
    return out


def error(output: Tensor, bias: Tensor, minus: Tensor, share: Tensor) -> Tensor:
    """(softmax(Z + b) - Y) / n, in place of the outputs (clients, rows, seeds × classes)."""
    clients, rows, width = output.shape
    classes = minus.shape[2]
    _error[(triton.cdiv(rows, 16), clients * (width // classes))](
        output, bias, minus, share, rows, width // classes, classes, 16, block(classes), num_warps=1
    )
    return output


def outer(errors: Tensor, messages: Tensor, weight: Tensor, bias: Tensor) -> None:
    """G^T S and G^T 1 for every client and seed, into the slopes of a weight and a bias."""
    clients, rows, _ = messages.shape
    _, inner, seeds, width = weight.shape
    wide = block(width)
    _outer[(triton.cdiv(inner, 16), clients * seeds)](
        *(errors, messages, weight, bias, rows, seeds, inner, width),
        *(min(128, 8192 // wide), 16, wide),  # some GPUs hold only 99 KiB of tiles
        num_warps=4,
    )


def below(spread: Tensor, weight: Tensor, hidden: Tensor, out: Tensor) -> Tensor:
    """P^T G W where the hidden activation is positive, zero elsewhere."""
    clients, rows, _ = spread.shape
    _, inner, seeds, width = weight.shape
    _below[(triton.cdiv(rows, 64), clients * seeds)](
        *(spread, weight, hidden, out, rows, seeds, inner, width),
        *(64, block(inner), block(width)),
        num_warps=4,
    )
    return out


def sums(dense: Tensor, out: Tensor) -> None:
    """Sums over the rows of (clients, rows, width)."""
    clients, rows, width = dense.shape
    chunks = triton.cdiv(rows, 128)
    parts = dense.new_empty(clients, chunks, width)
    _sums[(chunks, triton.cdiv(width, 32), clients)](
        dense, parts, rows, width, chunks, 128, 32, num_warps=4
    )
    torch.sum(parts, 1, out=out)


def block(width: int) -> int:
    """The sides of a tile that hold this many numbers; tensors of tiles are at least 16 wide."""
    return max(16, int(triton.next_power_of_2(width)))


@triton.jit(do_not_specialize=["rows"])
def _linear(
    messages, weight, out, rows, seeds, inner, outer,
    R: tl.constexpr, INNER: tl.constexpr, OUTER: tl.constexpr,
):  # fmt: skip
    client, seed = (tl.program_id(1) // seeds).to(tl.int64), tl.program_id(1) % seeds
    row = tl.program_id(0) * R + tl.arange(0, R)
    line = (client * rows + row)[:, None] * seeds + seed  # of a row, this seed's part
    column = tl.arange(0, OUTER)
    total = tl.zeros((R, OUTER), tl.float32)
    for begin in range(0, inner, INNER):
        term = begin + tl.arange(0, INNER)
        real = (row < rows)[:, None] & (term < inner)[None, :]
        left = tl.load(messages + line * inner + term[None, :], mask=real, other=0.0)
        places = (
            weight + ((client * inner + term) * seeds + seed)[:, None] * outer + column[None, :]
        )
        real = (term < inner)[:, None] & (column < outer)[None, :]
        right = tl.load(places, mask=real, other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    real = (row < rows)[:, None] & (column < outer)[None, :]
    tl.store(out + line * outer + column[None, :], total, mask=real)


@triton.jit(do_not_specialize=["rows"])
def _error(
    output, bias, minus, share, rows, seeds, classes, R: tl.constexpr, CLASSES: tl.constexpr
):
    client, seed = (tl.program_id(1) // seeds).to(tl.int64), tl.program_id(1) % seeds
    row = tl.program_id(0) * R + tl.arange(0, R)
    column = tl.arange(0, CLASSES)
    real = (row < rows)[:, None] & (column < classes)[None, :]
    places = output + ((client * rows + row)[:, None] * seeds + seed) * classes + column[None, :]
    offset = (client * seeds + seed) * classes
    logit = tl.load(places, mask=real, other=0.0)
    logit += tl.load(bias + offset + column, mask=column < classes, other=0.0)[None, :]
    logit = tl.where((column < classes)[None, :], logit, -float("inf"))
    chance = tl.exp(logit - tl.max(logit, 1)[:, None])
    chance = chance / tl.sum(chance, 1)[:, None]
    label = minus + (client * classes + column)[None, :] * rows + row[:, None]
    part = tl.load(share + client * rows + row, mask=row < rows, other=0.0)
    wrong = chance * part[:, None] + tl.load(label, mask=real, other=0.0)
    tl.store(places, wrong, mask=real)


@triton.jit(do_not_specialize=["rows"])
def _outer(
    errors, messages, weight, bias, rows, seeds, inner, outer,
    R: tl.constexpr, INNER: tl.constexpr, OUTER: tl.constexpr,
):  # fmt: skip
    client, seed = (tl.program_id(1) // seeds).to(tl.int64), tl.program_id(1) % seeds
    term = tl.program_id(0) * INNER + tl.arange(0, INNER)
    column = tl.arange(0, OUTER)
    total = tl.zeros((INNER, OUTER), tl.float32)
    alone = tl.zeros((R, OUTER), tl.float32)
    for begin in range(0, rows, R):
        row = begin + tl.arange(0, R)
        line = (client * rows + row) * seeds + seed
        real = (row < rows)[None, :] & (term < inner)[:, None]
        left = tl.load(messages + line[None, :] * inner + term[:, None], mask=real, other=0.0)
        real = (row < rows)[:, None] & (column < outer)[None, :]
        right = tl.load(errors + line[:, None] * outer + column[None, :], mask=real, other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
        alone += right
    places = weight + ((client * inner + term) * seeds + seed)[:, None] * outer + column[None, :]
    tl.store(places, total, mask=(term < inner)[:, None] & (column < outer)[None, :])
    if tl.program_id(0) == 0:
        own = bias + (client * seeds + seed) * outer + column
        tl.store(own, tl.sum(alone, 0), mask=column < outer)


@triton.jit(do_not_specialize=["rows"])
def _below(
    spread, weight, hidden, out, rows, seeds, inner, outer,
    R: tl.constexpr, INNER: tl.constexpr, OUTER: tl.constexpr,
):  # fmt: skip
    client, seed = (tl.program_id(1) // seeds).to(tl.int64), tl.program_id(1) % seeds
    row = tl.program_id(0) * R + tl.arange(0, R)
    line = (client * rows + row)[:, None] * seeds + seed
    term, column = tl.arange(0, INNER), tl.arange(0, OUTER)
    real = (row < rows)[:, None] & (column < outer)[None, :]
    left = tl.load(spread + line * outer + column[None, :], mask=real, other=0.0)
    places = weight + ((client * inner + term) * seeds + seed)[None, :] * outer + column[:, None]
    real = (term < inner)[None, :] & (column < outer)[:, None]
    right = tl.load(places, mask=real, other=0.0)
    slope = tl.dot(left, right, input_precision="ieee")
    real = (row < rows)[:, None] & (term < inner)[None, :]
    gate = tl.load(hidden + line * inner + term[None, :], mask=real, other=0.0)
    tl.store(out + line * inner + term[None, :], tl.where(gate > 0, slope, 0.0), mask=real)


@triton.jit(do_not_specialize=["rows", "chunks"])
def _sums(dense, parts, rows, width, chunks, R: tl.constexpr, ACROSS: tl.constexpr):
    client = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * R + tl.arange(0, R)
    across = tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    real = (row < rows)[:, None] & (across < width)[None, :]
    places = dense + (client * rows + row)[:, None] * width + across[None, :]
    total = tl.sum(tl.load(places, mask=real, other=0.0), 0)
    tl.store(
        parts + (client * chunks + tl.program_id(0)) * width + across, total, mask=across < width
    )
