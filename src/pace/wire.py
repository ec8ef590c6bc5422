"""A message as bytes, and nothing else.

A frame, all numbers little-endian:

    magic      4   b"PACE"
    version    1   1 for numbers in float32, 2 for float16, 3 for int8
    digest     8   of the federation the message belongs to
    answers    4   checksum of the upload this return answers; zero in an upload
    count      1   number of tensors
    table          for each tensor: length of its name (1), the name in ASCII, number of
                   dimensions (1), each dimension (4)
    numbers        tensor after tensor in table order, each in row-major order (see `numerals`)
    checksum   4   CRC-32 of everything before it

The checksum finds accidents, not attackers. A frame's own checksum names it: the return to an
upload repeats it under `answers`. Whatever the numbers on the wire, a decoded message is float32.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from pace import numerals
from pace.errors import DamageError, FormatError, LayoutError, NumberError, SizeError, VersionError

MAGIC = b"PACE"
VERSIONS = {kind: version for version, kind in enumerate(numerals.KINDS, start=1)}
HEAD = struct.Struct("<4sB8s4sB")
NOBODY = bytes(4)  # what an upload answers
CHECKSUM = 4
DIMENSIONS, NUMBERS = 8, 2**40  # of a tensor, at most


class Layout(dict[str, tuple[int, ...]]):
    """The names and shapes of a message, in order, and how its numbers are written."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], numbers: str = "float32") -> None:
        super().__init__(shapes)
        self.numbers = numbers

    @cached_property
    def table(self) -> bytes:
        """Names and shapes, as they stand in a frame."""
        rows = bytearray()
        for name, shape in self.items():
            label = name.encode("ascii")
            form = f"<B{len(label)}sB{len(shape)}I"
            rows += struct.pack(form, len(label), label, len(shape), *shape)
        return bytes(rows)

    @cached_property
    def size(self) -> int:
        """The bytes of a frame."""
        numbers = sum(numerals.size(shape, self.numbers) for shape in self.values())
        return HEAD.size + len(self.table) + numbers + CHECKSUM


@dataclass(frozen=True)
class Frame:
    """A decoded message and what its envelope says."""

    digest: bytes
    answers: bytes
    message: Mapping[str, Tensor]


def encode(
    message: Mapping[str, Tensor],
    digest: bytes,
    answers: bytes = NOBODY,
    numbers: str = "float32",
) -> bytes:
    """The frame of a message."""
    head = HEAD.pack(MAGIC, VERSIONS[numbers], digest, answers, len(message))
    parts = [head, layout(message).table]
    parts += [numerals.write(value.detach().cpu().numpy(), numbers) for value in message.values()]
    body = b"".join(parts)
    return body + zlib.crc32(body).to_bytes(CHECKSUM, "little")


def decode(frame: bytes, expected: Mapping[str, tuple[int, ...]] | None = None) -> Frame:
    """The message of a frame.

    With `expected`, what both sides agreed on, the frame's size is checked before anything is read
    and its table is compared with the agreed one, never trusted.
    """
    agreed = expected if isinstance(expected, Layout) or expected is None else Layout(expected)
    if agreed is not None and len(frame) != agreed.size:
        raise SizeError(f"the frame has {len(frame)} bytes, expected exactly {agreed.size}")
    if len(frame) < HEAD.size + CHECKSUM or frame[: len(MAGIC)] != MAGIC:
        raise FormatError("these bytes are not a PACE frame: expected one that starts with 'PACE'")
    _, version, digest, answers, count = HEAD.unpack_from(frame)
    if version not in VERSIONS.values():
        raise VersionError(
            f"the frame has version {version}, this software reads {list(VERSIONS.values())}"
        )
    if checksum(frame) != zlib.crc32(memoryview(frame)[:-CHECKSUM]).to_bytes(CHECKSUM, "little"):
        raise DamageError(
            "the frame was damaged on its way (its checksum does not fit): send it again"
        )
    shapes, offset = read_table(frame, count, agreed)
    if agreed is not None and shapes.numbers != agreed.numbers:
        raise VersionError(f"the frame's numbers are {shapes.numbers}, expected {agreed.numbers}")
    if agreed is not None and list(shapes.items()) != list(agreed.items()):
        raise LayoutError(f"the frame holds {say(shapes)}, expected {say(agreed)}")
    if shapes.size != len(frame):
        raise SizeError(f"the frame has {len(frame)} bytes, its table speaks of {shapes.size}")
    message = numbers_of(frame, offset, shapes)
    return Frame(digest, answers, message)


def numbers_of(frame: bytes, offset: int, shapes: Layout) -> dict[str, Tensor]:
    """The tensors of a frame, every number finite."""
    parts = []
    for shape in shapes.values():
        parts.append(numerals.read(frame, offset, shape, shapes.numbers))
        offset += numerals.size(shape, shapes.numbers)
    # A finite sum has finite terms, and is faster to get than a look at each of them.
    if not np.isfinite(sum(float(part.sum(dtype=np.float64)) for part in parts)):
        for name, part in zip(shapes, parts, strict=True):
            if not np.isfinite(part).all():
                raise NumberError(f"tensor {name!r} holds a number that is not finite")
    return {name: torch.from_numpy(part) for name, part in zip(shapes, parts, strict=True)}


def checksum(frame: bytes) -> bytes:
    """The four bytes that name a frame."""
    return frame[-CHECKSUM:]


def layout(message: Mapping[str, Tensor], numbers: str = "float32") -> Layout:
    return Layout({name: tuple(value.shape) for name, value in message.items()}, numbers)


def size(layout: Mapping[str, tuple[int, ...]]) -> int:
    """The bytes of a frame with this layout."""
    return layout.size if isinstance(layout, Layout) else Layout(layout).size


def read_table(frame: bytes, count: int, agreed: Layout | None = None) -> tuple[Layout, int]:
    """Names, shapes and numbers from a frame, and where its numbers begin."""
    kind = next((kind for kind, version in VERSIONS.items() if version == frame[4]), "float32")
    if agreed is not None and count == len(agreed) and kind == agreed.numbers:
        begin = HEAD.size + len(agreed.table)
        if frame[HEAD.size : begin] == agreed.table:
            return agreed, begin
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
            # An empty tensor takes no bytes, whatever its shape says.
            empty = 0 in shapes[name] and math.prod(filter(None, shapes[name])) > NUMBERS
            if empty or dimensions > DIMENSIONS:
                raise LayoutError(f"tensor {name!r} has a shape that no tensor of ours has")
            offset += 4 * dimensions
    except (struct.error, UnicodeDecodeError) as error:
        raise FormatError("the frame's table of tensors is broken") from error
    return Layout(shapes, kind), offset


def say(layout: Mapping[str, tuple[int, ...]]) -> str:
    """A layout for people: `0.bias (64), 0.weight/L (64, 6)`."""
    return ", ".join(f"{name} ({', '.join(map(str, shape))})" for name, shape in layout.items())
