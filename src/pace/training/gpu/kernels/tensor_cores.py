"""Products of dense matrices on tensor cores, as exact as float32."""

# ruff: noqa: N803 - Triton's constants are written in capitals

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def split(dense: Tensor) -> Tensor:
    """Three bfloat16 parts that add up to float32 numbers: (3, ...)."""
    parts = torch.empty((3, *dense.shape), dtype=torch.bfloat16, device=dense.device)
    count = dense.numel()
    _split[(triton.cdiv(count, 1024),)](dense.contiguous(), parts, count, 1024)
    return parts


def product(left: Tensor, columns: int, dense: Tensor, out: Tensor, transposed: bool) -> Tensor:
    """A_k H_k, or A_k^T H_k, of matrices split in parts (3, clients, rows, padded columns).

    Six products of parts on tensor cores; those left out are smaller than float32 resolves. The
    largest has a sum of its own, since tensor cores cut off what they add.
    """
    _, clients, rows, pitch = left.shape
    width = dense.shape[2]
    high, inner = (columns, rows) if transposed else (rows, columns)
    grid = (triton.cdiv(high, 64) * triton.cdiv(width, 64), clients)
    _product[grid](
        *(left, split(dense), out, high, width, inner, rows, pitch),
        *(left[0].numel(), dense.numel(), transposed, 64, 64, 32),
        num_warps=4,
        num_stages=4,
    )
    return out


@triton.jit(do_not_specialize=["count"])
def _split(dense, parts, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    value = tl.load(dense + at, mask=mask, other=0.0)
    first = value.to(tl.bfloat16)
    value -= first.to(tl.float32)
    second = value.to(tl.bfloat16)
    value -= second.to(tl.float32)
    parts += at
    tl.store(parts, first, mask=mask)
    tl.store(parts + count, second, mask=mask)
    tl.store(parts + 2 * count.to(tl.int64), value.to(tl.bfloat16), mask=mask)


@triton.jit(do_not_specialize=["high", "inner", "rows"])
def _product(
    left, right, out, high, width, inner, rows, pitch, left_part, right_part,
    TRANSPOSED: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    client = tl.program_id(1).to(tl.int64)
    across = tl.cdiv(width, WIDE)
    row = (tl.program_id(0) // across) * HIGH + tl.arange(0, HIGH)
    column = (tl.program_id(0) % across) * WIDE + tl.arange(0, WIDE)
    left += client * rows * pitch
    right += client * inner * width
    large = tl.zeros((HIGH, WIDE), tl.float32)
    small = tl.zeros((HIGH, WIDE), tl.float32)
    for begin in range(0, inner, INNER):
        term = begin + tl.arange(0, INNER)
        if TRANSPOSED:
            places = left + term.to(tl.int64)[:, None] * pitch + row[None, :]
            real = (term < inner)[:, None] & (row < pitch)[None, :]
        else:
            places = left + row.to(tl.int64)[:, None] * pitch + term[None, :]
            real = (row < high)[:, None] & (term < pitch)[None, :]
        a1 = tl.load(places, mask=real, other=0.0)
        a2 = tl.load(places + left_part, mask=real, other=0.0)
        a3 = tl.load(places + left_part + left_part, mask=real, other=0.0)  # 2 · may not fit
        if TRANSPOSED:
            a1, a2, a3 = tl.trans(a1), tl.trans(a2), tl.trans(a3)
        places = right + term.to(tl.int64)[:, None] * width + column[None, :]
        real = (term < inner)[:, None] & (column < width)[None, :]
        b1 = tl.load(places, mask=real, other=0.0)
        b2 = tl.load(places + right_part, mask=real, other=0.0)
        b3 = tl.load(places + right_part + right_part, mask=real, other=0.0)
        small = tl.dot(a3, b1, small)
        small = tl.dot(a2, b2, small)
        small = tl.dot(a1, b3, small)
        small = tl.dot(a2, b1, small)
        small = tl.dot(a1, b2, small)
        large = tl.dot(a1, b1, large)
    places = out + (client * high + row)[:, None] * width + column[None, :]
    tl.store(places, large + small, mask=(row < high)[:, None] & (column < width)[None, :])
