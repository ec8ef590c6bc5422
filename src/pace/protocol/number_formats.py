"""How the numbers of a tensor are written: exactly, in half the bytes, or in a quarter of them.

    float32    as they are
    float16    rounded to eleven significant bits; beyond ±65504 they stay at that bound
    int8       matrices: a float32 scale for each row or column of the shorter side, then each
               number as a whole multiple of its scale, -127 to 127; everything else as float16

Tensors of a few numbers, counts for instance, are always float32: there is nothing to save.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

KINDS = ("float32", "float16", "int8")
FEW = 8  # numbers up to which a tensor stays float32
LEVELS = 127
SINGLE, HALF = np.dtype("<f4"), np.dtype("<f2")
HIGHEST = float(np.finfo(np.float16).max)


def size(shape: tuple[int, ...], kind: str) -> int:
    """The bytes of a tensor of this shape."""
    numbers = volume(shape)
    if _whole(shape, kind):
        return 4 * numbers
    return numbers + 4 * min(shape) if _scaled(shape, kind) else 2 * numbers


def write(value: Array, kind: str) -> bytes | memoryview:
    """The numbers in row-major order; as a view of them where they are written as they are."""
    if not _scaled(value.shape, kind):
        if _whole(value.shape, kind):
            return np.ascontiguousarray(value, SINGLE).reshape(-1).view(np.uint8).data
        bounded: Array = value.clip(-HIGHEST, HIGHEST)
        return bytes(bounded.astype(HALF).tobytes())
    long = int(value.shape[0] <= value.shape[1])  # the axis along which numbers share a scale
    scales = (np.abs(value).max(axis=long, keepdims=True) / LEVELS).astype(SINGLE)
    steps = np.rint(value / np.where(scales > 0, scales, 1)).clip(-LEVELS, LEVELS)
    return bytes(scales.tobytes() + steps.astype(np.int8).tobytes())


def read(
    content: bytes, offset: int, shape: tuple[int, ...], kind: str, out: Array | None = None
) -> Array:
    """The numbers again, as float32; those with scales straight into `out`, if it is given."""
    take: Callable[..., Array] = np.frombuffer
    numbers = volume(shape)
    if not _scaled(shape, kind):
        form = SINGLE if _whole(shape, kind) else HALF
        found = take(content, form, count=numbers, offset=offset).reshape(shape)
        if found.dtype == np.float32:
            return found
        with np.errstate(invalid="ignore"):  # a signalling NaN: the reader refuses it
            return found.astype(np.float32)
    scales = take(content, SINGLE, count=min(shape), offset=offset)
    steps = take(content, np.int8, count=numbers, offset=offset + scales.nbytes).reshape(shape)
    with np.errstate(over="ignore", invalid="ignore"):  # not finite: the reader refuses it
        by_row = scales[:, None] if shape[0] <= shape[1] else scales
        return np.multiply(steps, by_row, out=out)


def volume(shape: tuple[int, ...]) -> int:
    """How many numbers a tensor has; Python's integers, which do not overflow."""
    count = 1
    for dimension in shape:
        count *= dimension
    return count


def _whole(shape: tuple[int, ...], kind: str) -> bool:
    return kind == "float32" or volume(shape) <= FEW


def _scaled(shape: tuple[int, ...], kind: str) -> bool:
    return kind == "int8" and len(shape) == 2 and volume(shape) > FEW
