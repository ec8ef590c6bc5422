"""A message as bytes, and nothing else.

A frame, all numbers little-endian:

    magic      4   b"PACE"
    version    1   1
    digest     8   of the federation the message belongs to
    answers    4   checksum of the upload this return answers; zero in an upload
    count      1   number of tensors
    table          for each tensor: length of its name (1), the name in ASCII, number of
                   dimensions (1), each dimension (4)
    numbers        float32, tensor after tensor in table order, each in row-major order
    checksum   4   CRC-32 of everything before it

The checksum finds accidents, not attackers. A frame's own checksum names it: the return to an
upload repeats it under `answers`. This module is the only place that casts numbers, to float32.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pace.errors import DamageError, FormatError, LayoutError, NumberError, SizeError, VersionError

MAGIC = b"PACE"
VERSION = 1
HEAD = struct.Struct("<4sB8s4sB")
NOBODY = bytes(4)  # what an upload answers
CHECKSUM = 4

Layout = Mapping[str, tuple[int, ...]]  # the names and shapes of a message, in order


@dataclass(frozen=True)
class Frame:
    """A decoded message and what its envelope says."""

    digest: bytes
    answers: bytes
    message: Mapping[str, Tensor]


def encode(message: Mapping[str, Tensor], digest: bytes, answers: bytes = NOBODY) -> bytes:
    """The frame of a message."""
    body = HEAD.pack(MAGIC, VERSION, digest, answers, len(message)) + table(layout(message))
    numbers = b"".join(
        value.detach().cpu().contiguous().numpy().astype("<f4").tobytes()
        for value in message.values()
    )
    return body + numbers + zlib.crc32(body + numbers).to_bytes(CHECKSUM, "little")


def decode(frame: bytes, expected: Layout | None = None) -> Frame:
    """The message of a frame.

    With `expected`, what both sides agreed on, the frame's size is checked before anything is read
    and its table is compared with the agreed one, never trusted.
    """
    if expected is not None and len(frame) != size(expected):
        raise SizeError(f"the frame has {len(frame)} bytes, expected exactly {size(expected)}")
    if len(frame) < HEAD.size + CHECKSUM or frame[: len(MAGIC)] != MAGIC:
        raise FormatError("these bytes are not a PACE frame: expected one that starts with 'PACE'")
    _, version, digest, answers, count = HEAD.unpack_from(frame)
    if version != VERSION:
        raise VersionError(f"the frame has version {version}, this software reads {VERSION}")
    if checksum(frame) != zlib.crc32(frame[:-CHECKSUM]).to_bytes(CHECKSUM, "little"):
        raise DamageError(
            "the frame was damaged on its way (its checksum does not fit): send it again"
        )
    shapes, offset = read_table(frame, count)
    if expected is not None and list(shapes.items()) != list(expected.items()):
        raise LayoutError(f"the frame holds {say(shapes)}, expected {say(expected)}")
    if size(shapes) != len(frame):
        raise SizeError(f"the frame has {len(frame)} bytes, its table speaks of {size(shapes)}")
    message = {}
    for name, shape in shapes.items():
        numbers = np.frombuffer(frame, "<f4", count=volume(shape), offset=offset).reshape(shape)
        if not np.isfinite(numbers).all():
            raise NumberError(f"tensor {name!r} holds a number that is not finite")
        message[name] = torch.from_numpy(numbers.astype(np.float32))
        offset += numbers.nbytes
    return Frame(digest, answers, message)


def checksum(frame: bytes) -> bytes:
    """The four bytes that name a frame."""
    return frame[-CHECKSUM:]


def layout(message: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in message.items()}


def volume(shape: tuple[int, ...]) -> int:
    """How many numbers a tensor has; Python's integers, which do not overflow."""
    count = 1
    for dimension in shape:
        count *= dimension
    return count


def size(layout: Layout) -> int:
    """The bytes of a frame with this layout."""
    return HEAD.size + len(table(layout)) + 4 * sum(map(volume, layout.values())) + CHECKSUM


def table(layout: Layout) -> bytes:
    """Names and shapes, as they stand in a frame."""
    rows = bytearray()
    for name, shape in layout.items():
        label = name.encode("ascii")
        rows += struct.pack(f"<B{len(label)}sB{len(shape)}I", len(label), label, len(shape), *shape)
    return bytes(rows)


def read_table(frame: bytes, count: int) -> tuple[dict[str, tuple[int, ...]], int]:
    """Names and shapes from a frame, and where its numbers begin."""
    shapes: dict[str, tuple[int, ...]] = {}
    offset = HEAD.size
    try:
        for _ in range(count):
            (length,) = struct.unpack_from("<B", frame, offset)
            label, dimensions = struct.unpack_from(f"<{length}sB", frame, offset + 1)
            offset += length + 2
            name = label.decode("ascii")
            if name in shapes:
                raise LayoutError(f"tensor {name!r} stands twice in the frame's table")
            shapes[name] = struct.unpack_from(f"<{dimensions}I", frame, offset)
            offset += 4 * dimensions
    except (struct.error, UnicodeDecodeError) as error:
        raise FormatError("the frame's table of tensors is broken") from error
    return shapes, offset


def say(layout: Layout) -> str:
    """A layout for people: `0.bias (64), 0.weight/L (64, 6)`."""
    return ", ".join(f"{name} ({', '.join(map(str, shape))})" for name, shape in layout.items())
