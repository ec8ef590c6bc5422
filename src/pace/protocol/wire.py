"""A message as bytes, and nothing else.

A frame, all numbers little-endian:

    magic      4   b"PACE"
    version    1   1 for numbers in float32, 2 for float16, 3 for int8, 4 for sealed uploads
    digest     8   of the federation the message belongs to
    answers    4   checksum of the upload this return answers; zero in an upload
    count      1   number of tensors
    table          for each tensor: length of its name (1), the name in ASCII, number of
                   dimensions (1), each dimension (4)
    numbers        tensor after tensor in table order, each in row-major order (see `number_formats`)
    checksum   4   CRC-32 of everything before it

The checksum finds accidents, not attackers. A frame's own checksum names it: the return to an
upload repeats it under `answers`. Whatever the numbers on the wire, a decoded message is float32.
"""

import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from pace.errors import (
    DamageError,
    FormatError,
    LayoutError,
    NumberError,
    OtherJobError,
    SizeError,
    VersionError,
)
from pace.io import records
from pace.protocol import number_formats, ring

MAGIC = b"PACE"
SEALED = "sealed"  # numbers of a ring, under masks: all high words, then all low words
VERSIONS = {kind: version for version, kind in enumerate((*number_formats.KINDS, SEALED), start=1)}
HEAD = struct.Struct("<4sB8s4sB")
NOBODY = bytes(4)  # what an upload answers
CHECKSUM = 4
TENSORS = 255  # of a message, at most
DIMENSIONS, NUMBERS = 8, 2**40  # of a tensor, at most
LONGEST_OPENING = HEAD.size + TENSORS * (2 + 255 + 4 * DIMENSIONS)  # bytes before the numbers


class Layout(dict[str, tuple[int, ...]]):
    """The names and shapes of a message, in order, and how its numbers are written."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], numbers: str = "float32") -> None:
        super().__init__(shapes)
        self.numbers = numbers
        if len(self) > TENSORS:
            raise LayoutError(f"{len(self)} tensors, a frame holds {TENSORS}: use fewer layers")

    @cached_property
    def table(self) -> bytes:
        """Names and shapes, as they are in a frame."""
        rows = bytearray()
        for name, shape in self.items():
            form = f"<B{len(name)}sB{len(shape)}I"
            rows += struct.pack(form, len(name), name.encode("ascii"), len(shape), *shape)
        return bytes(rows)

    @cached_property
    def volumes(self) -> list[int]:
        return list(map(math.prod, self.values()))

    @cached_property
    def lengths(self) -> list[int]:
        """The bytes that each tensor's numbers take."""
        if self.numbers == SEALED:
            return [ring.NUMBER * volume for volume in self.volumes]
        return [number_formats.size(shape, self.numbers) for shape in self.values()]

    @cached_property
    def size(self) -> int:
        return HEAD.size + len(self.table) + sum(self.lengths) + CHECKSUM


@dataclass(frozen=True)
class Frame:
    """A decoded message and what its envelope says."""

    digest: bytes
    answers: bytes
    message: Mapping[str, Tensor]


def encode(
    message: Mapping[str, Tensor], digest: bytes, answers: bytes = NOBODY, numbers: str = "float32"
) -> bytes:
    return framed(layout(message, numbers), written(message, numbers), digest, answers)


def written(message: Mapping[str, Tensor], numbers: str) -> bytes | memoryview:
    """A message's numbers, tensor after tensor."""
    if message and numbers == "float32":  # all tensors are one run
        run = torch.cat([value.flatten() for value in message.values()])
        return number_formats.write(run.numpy(force=True), numbers)
    values = (value.numpy(force=True) for value in message.values())
    return b"".join(number_formats.write(value, numbers) for value in values)


def framed(
    shapes: Layout, content: bytes | memoryview, digest: bytes, answers: bytes = NOBODY
) -> bytes:
    """The frame around a message's numbers."""
    head = HEAD.pack(MAGIC, VERSIONS[shapes.numbers], digest, answers, len(shapes))
    begin = head + shapes.table
    crc = zlib.crc32(content, zlib.crc32(begin))
    return b"".join([begin, content, crc.to_bytes(CHECKSUM, "little")])


def decode(frame: bytes, agreed: Layout | None = None, digest: bytes | None = None) -> Frame:
    """The message of a frame, if `check` has nothing against it."""
    shapes, offset = check(frame, agreed, digest)
    batch = batch_of(decode_rows([frame], offset, shapes), shapes)
    _, _, theirs, answers, _ = HEAD.unpack_from(frame)
    return Frame(theirs, answers, {name: values[0] for name, values in batch.items()})


def check(
    frame: bytes, agreed: Layout | None = None, digest: bytes | None = None
) -> tuple[Layout, int]:
    """The layout of a sound frame, of the federation of this digest, and where its numbers begin.

    With what both sides agreed on, the frame's size is checked before anything is read and its table
    is compared with the agreed one, never trusted.
    """
    begins = len(frame) >= HEAD.size + CHECKSUM and frame.startswith(MAGIC)
    _, version, theirs, _, count = HEAD.unpack(frame[: HEAD.size] if begins else bytes(HEAD.size))
    if begins and digest is not None and digest != theirs and intact(frame):
        raise OtherJobError(
            f"the message belongs to federation {theirs.hex()}, this is {digest.hex()}: the two were "
            "set up differently, in model, method or settings; use the same job at every site"
        )
    if agreed is not None and len(frame) != agreed.size:
        raise SizeError(f"the frame has {len(frame)} bytes, expected exactly {agreed.size}")
    if not begins:
        raise FormatError("these bytes are not a PACE frame: expected one that starts with 'PACE'")
    if version not in VERSIONS.values():
        raise VersionError(
            f"the frame has version {version}, this software reads {list(VERSIONS.values())}: if a "
            f"newer PACE made it, {records.UPDATE}"
        )
    if not intact(frame):
        raise DamageError("the frame was damaged on its way, its checksum is wrong: send it again")
    shapes, offset = read_table(frame, count, agreed)
    if agreed is not None and shapes.numbers != agreed.numbers:
        raise VersionError(f"the frame's numbers are {shapes.numbers}, expected {agreed.numbers}")
    if agreed is not None and list(shapes.items()) != list(agreed.items()):
        raise LayoutError(f"the frame holds {say(shapes)}, expected {say(agreed)}")
    if shapes.size != len(frame):
        raise SizeError(f"the frame has {len(frame)} bytes, its table describes {shapes.size}")
    return shapes, offset


def intact(frame: bytes) -> bool:
    return checksum(frame) == zlib.crc32(memoryview(frame)[:-CHECKSUM]).to_bytes(CHECKSUM, "little")


def decode_rows(frames: Sequence[bytes], offset: int, shapes: Layout) -> Tensor:
    """The numbers of frames of one layout, a row for each, every number finite.

    Of sealed frames each number is its high and its low word: (frames, numbers, 2), int64.
    """
    count = sum(shapes.volumes)
    if shapes.numbers == SEALED:
        words = [ring.from_bytes(frame, count, offset).words for frame in frames]
        return torch.from_numpy(np.stack(words))
    numbers = np.empty((len(frames), count), np.float32)
    for row, frame in zip(numbers, frames, strict=True):
        if shapes.numbers == "float32":  # all tensors are one run
            row[:] = np.frombuffer(frame, number_formats.SINGLE, count, offset)
            continue
        begin, at = 0, offset
        for shape, length in zip(shapes.values(), shapes.lengths, strict=True):
            values = number_formats.read(frame, at, shape, shapes.numbers)
            row[begin : begin + values.size] = values.reshape(-1)
            begin, at = begin + values.size, at + length
    rows = torch.from_numpy(numbers)
    # A finite sum has finite terms, and is faster to get than a look at each of them.
    if not math.isfinite(rows.sum()):
        for name, part in batch_of(rows, shapes).items():
            if not torch.isfinite(part).all():
                raise NumberError(f"tensor {name!r} holds a number that is not finite")
    return rows


def batch_of(rows: Tensor, shapes: Layout) -> dict[str, Tensor]:
    """The tensors of decoded rows; the first dimension is the frames'."""
    parts = rows.split_with_sizes(shapes.volumes, 1)
    return {
        name: part.reshape(len(rows), *shape, *rows.shape[2:])
        for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


def checksum(frame: bytes) -> bytes:
    """The four bytes that name a frame."""
    return frame[-CHECKSUM:]


def layout(message: Mapping[str, Tensor], numbers: str = "float32") -> Layout:
    return Layout({name: tuple(value.shape) for name, value in message.items()}, numbers)


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
                raise LayoutError(f"tensor {name!r} occurs twice in the frame's table")
            shapes[name] = struct.unpack_from(f"<{dimensions}I", frame, offset)
            # An empty tensor takes no bytes, whatever its shape says.
            empty = 0 in shapes[name] and math.prod(filter(None, shapes[name])) > NUMBERS
            if empty or dimensions > DIMENSIONS:
                raise LayoutError(f"tensor {name!r} has a shape that no tensor of ours has")
            offset += 4 * dimensions
    except (struct.error, UnicodeDecodeError) as error:
        raise FormatError("the frame's table of tensors is damaged") from error
    return Layout(shapes, kind), offset


def say(layout: Mapping[str, tuple[int, ...]]) -> str:
    """A layout for people: `0.bias (64), 0.weight/L (64, 6)`."""
    return ", ".join(f"{name} ({', '.join(map(str, shape))})" for name, shape in layout.items())
