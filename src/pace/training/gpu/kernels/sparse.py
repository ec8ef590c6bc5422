"""Products of sparse matrices, as weighted sums of rows: each sum is taken in one order."""

# ruff: noqa: N803 - Triton's constants are written in capitals

from __future__ import annotations

from typing import Protocol

import triton
import triton.language as tl
from torch import Tensor


class Sparse(Protocol):
    """What a kernel reads of `pace.training.gpu.blocks.Sparse`."""

    starts: Tensor
    columns: Tensor
    values: Tensor
    shape: tuple[int, int]
    order: Tensor
    filled: int


def rows(matrix: Sparse, dense: Tensor, out: Tensor) -> Tensor:
    """matrix @ dense, into `out`."""
    width = dense.shape[1]
    few, entries, across, warps = tile(matrix, width)
    grid = (triton.cdiv(matrix.shape[0], few), triton.cdiv(width, across))
    _rows[grid](
        *(matrix.order, matrix.starts, matrix.columns, matrix.values, dense, out),
        *(matrix.shape[0], width, few, entries, across),
        num_warps=warps,
    )
    return out


def tile(matrix: Sparse, width: int) -> tuple[int, int, int, int]:
    """Rows, entries of each and columns that one program takes at a time, and its warps.

    Measured on an H200: few rows are shared among more programs, many short ones taken in pairs.
    """
    across = min(512, triton.next_power_of_2(width))
    mean = len(matrix.values) / max(1, matrix.shape[0])
    if matrix.shape[0] < 8192:
        return (1, 8, min(64, across), 1) if mean >= 4 else (1, 4, min(128, across), 1)
    few, entries = (2, 2) if mean < 6 else (1, 4)
    return few, entries, across, max(1, across // 128)


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
