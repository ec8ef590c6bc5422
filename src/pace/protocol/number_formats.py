"""How the numbers of a tensor are written: exactly, in half the bytes, or in a quarter of them.

    float32    as they are
    float16    rounded to eleven significant bits; beyond ±65504 they stay at that bound
    int8       matrices: a float32 scale for each row or column of the shorter side, then each
               number as a whole multiple of its scale, -127 to 127; everything else as float16

Tensors of a few numbers, counts for instance, are always float32: there is nothing to save.
"""

from math import prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

KINDS = ("float32", "float16", "int8")
FEW = 8  # numbers up to which a tensor stays float32
LEVELS = 127
SINGLE, HALF = np.dtype("<f4"), np.dtype("<f2")
HIGHEST = float(np.finfo(np.float16).max)


def _form(shape: tuple[int, ...], kind: str) -> str:
    """The kind that a tensor of this shape is written in."""
    if kind == "float32" or prod(shape) <= FEW:
        return "float32"
    return kind if len(shape) == 2 else "float16"


def size(shape: tuple[int, ...], kind: str) -> int:
    form, numbers = _form(shape, kind), prod(shape)
    return numbers + 4 * min(shape) if form == "int8" else numbers * (4 if form == "float32" else 2)


def write(value: Array, kind: str) -> bytes | memoryview:
    """The numbers in row-major order; as a view of them where they are written as they are."""
    form = _form(value.shape, kind)
    if form == "float32":
        return np.ascontiguousarray(value, SINGLE).reshape(-1).view(np.uint8).data
    if form == "float16":
        return bytes(value.clip(-HIGHEST, HIGHEST).astype(HALF).tobytes())
    long = int(value.shape[0] <= value.shape[1])  # the axis along which numbers share a scale
    scales = (np.abs(value).max(axis=long, keepdims=True) / LEVELS).astype(SINGLE)
    steps = np.rint(value / np.where(scales > 0, scales, 1)).clip(-LEVELS, LEVELS)
    return bytes(scales.tobytes() + steps.astype(np.int8).tobytes())


def read(content: bytes, offset: int, shape: tuple[int, ...], kind: str) -> Array:
    """The numbers again, as float32; the reader refuses those that are not finite."""
    form, numbers = _form(shape, kind), prod(shape)
    with np.errstate(over="ignore", invalid="ignore"):
        if form != "int8":
            dtype = SINGLE if form == "float32" else HALF
            values: Array = np.frombuffer(content, dtype, numbers, offset).reshape(shape)
            return values.astype(np.float32, copy=False)
        scales: Array = np.frombuffer(content, SINGLE, min(shape), offset)
        steps: Array = np.frombuffer(content, np.int8, numbers, offset + scales.nbytes)
        by_row = scales[:, None] if shape[0] <= shape[1] else scales
        return np.multiply(steps.reshape(shape), by_row)
