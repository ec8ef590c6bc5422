"""Products on a GPU: sparse by rows, each summed in one order; dense on tensor cores."""

# ruff: noqa: N803 - Triton's constants are written in capitals

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from pace_gpu.blocks import Sparse


def rows(matrix: Sparse, dense: Tensor) -> Tensor:
    """matrix @ dense."""
    width = dense.shape[1]
    out = dense.new_empty(matrix.shape[0], width)
    few, entries, across, warps = tile(matrix, width)
    grid = (triton.cdiv(matrix.shape[0], few), triton.cdiv(width, across))
    _rows[grid](
        *(matrix.order, matrix.starts, matrix.columns, matrix.values, dense, out),
        *(matrix.shape[0], width, few, entries, across),
        num_warps=warps,
    )
    return out


def tile(matrix: Sparse, width: int) -> tuple[int, int, int, int]:
    """Rows, entries of each and columns that one program takes, and its warps: measured on an H200."""
    across = min(512, triton.next_power_of_2(width))
    mean = len(matrix.values) / max(1, matrix.shape[0])
    if matrix.shape[0] < 8192:
        return (1, 8, min(64, across), 1) if mean >= 4 else (1, 4, min(128, across), 1)
    few, entries = (2, 2) if mean < 6 else (1, 4)
    return few, entries, across, max(1, across // 128)


def split(dense: Tensor) -> Tensor:
    """Three bfloat16 parts that add up to float32 numbers: (3, ...)."""
    parts = torch.empty((3, *dense.shape), dtype=torch.bfloat16, device=dense.device)
    count = dense.numel()
    _split[(triton.cdiv(count, 1024),)](dense.contiguous(), parts, count, 1024)
    return parts


def product(
    left: Tensor, columns: int, dense: Tensor, out: Tensor | None, transposed: bool
) -> Tensor:
    """A_k H_k, or A_k^T H_k, of matrices split in parts (3, clients, rows, padded columns).

    Six products of parts on tensor cores; those left out are smaller than float32 resolves. The
    largest has a sum of its own, since tensor cores cut off what they add.
    """
    _, clients, rows, pitch = left.shape
    width = dense.shape[2]
    high, inner = (columns, rows) if transposed else (rows, columns)
    out = dense.new_empty(clients, high, width) if out is None else out
    grid = (triton.cdiv(high, 64) * triton.cdiv(width, 64), clients)
    _product[grid](
        *(left, split(dense), out, high, width, inner, rows, pitch),
        *(left[0].numel(), dense.numel(), transposed, 64, 64, 32),
        num_warps=4,
        num_stages=4,
    )
    return out


@triton.jit(do_not_specialize=["count"])
def _rows(
    order, starts, columns, values, dense, out,
    count, width, R: tl.constexpr, E: tl.constexpr, ACROSS: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0) * R + tl.arange(0, R)
    there = place < count
    row = tl.load(order + place, mask=there, other=0)
    across = tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    total = gathered(row, there, starts, columns, values, dense, width, across, E)
    at = row.to(tl.int64)[:, None] * width + across[None, :]
    tl.store(out + at, total, mask=there[:, None] & (across < width)[None, :])


@triton.jit
def gathered(row, there, starts, columns, values, dense, width, across, E: tl.constexpr):
    """The chosen rows of the product, for some of its columns: (rows, columns)."""
    begin = tl.load(starts + row, mask=there, other=0)
    end = tl.load(starts + row + 1, mask=there, other=0)
    total = tl.zeros((row.shape[0], E, across.shape[0]), tl.float32)
    inside = (across < width)[None, None, :]
    for at in range(0, tl.max(end - begin, 0), E):
        entry = begin[:, None] + at + tl.arange(0, E)[None, :]
        real = entry < end[:, None]
        column = tl.load(columns + entry, mask=real, other=0).to(tl.int64)
        weight = tl.load(values + entry, mask=real, other=0.0)
        place = dense + column[:, :, None] * width + across[None, None, :]
        total += weight[:, :, None] * tl.load(place, mask=real[:, :, None] & inside, other=0.0)
    return tl.sum(total, 1)


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
