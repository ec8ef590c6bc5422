"""A second reader and writer of PACE's messages, from docs/wire-format.md and the standard library.

It shares no code with the package: where the two agree, the page is complete.
"""

import base64
import hashlib
import json
import math
import random
import struct
import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

VERSIONS = {"float32": 1, "float16": 2, "int8": 3, "sealed": 4}
HEAD, TAIL = 18, 4

Shape = tuple[int, ...]


class RefusedError(Exception):
    """A message that may not count; the code says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Tensor:
    """Numbers in row-major order."""

    shape: Shape
    numbers: tuple[float, ...]


@dataclass(frozen=True)
class Frame:
    """What a frame says."""

    digest: bytes
    answers: bytes
    tensors: Mapping[str, Tensor]


def single(number: float) -> float:
    """Rounded to float32; infinite beyond its range."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def form(shape: Shape, kind: str) -> str:
    """How a tensor of this shape is written."""
    if math.prod(shape) <= 8 or kind == "float32":
        return "float32"
    return "int8" if kind == "int8" and len(shape) == 2 else "float16"


def bytes_of(shape: Shape, kind: str) -> int:
    if kind == "sealed":
        return 12 * math.prod(shape)
    volume, written = math.prod(shape), form(shape, kind)
    if written == "int8":
        return volume + 4 * min(shape)
    return volume * (4 if written == "float32" else 2)


def lines(shape: Shape) -> list[range]:
    """The places that share a scale: rows, or columns where those are fewer."""
    rows, columns = shape
    if rows <= columns:
        return [range(row * columns, (row + 1) * columns) for row in range(rows)]
    return [range(column, rows * columns, columns) for column in range(columns)]


def write_numbers(tensor: Tensor, kind: str, *, exact: bool = False) -> bytes:
    """`exact` says that the numbers are held in float64, as in a return."""
    held = tensor.numbers
    written = form(tensor.shape, kind)
    if written == "float32":
        return struct.pack(f"<{len(held)}f", *held)
    if written == "float16":
        return struct.pack(f"<{len(held)}e", *(max(-65504.0, min(65504.0, x)) for x in held))
    keep = (lambda number: number) if exact else single
    scales, steps = [], [0] * len(held)
    for line in lines(tensor.shape):
        scale = single(keep(max(abs(held[place]) for place in line) / 127))
        scales.append(scale)
        for place in line:
            quotient = round(keep(held[place] / scale)) if scale > 0 else 0
            steps[place] = max(-127, min(127, quotient))
    return struct.pack(f"<{len(scales)}f{len(steps)}b", *scales, *steps)


def read_numbers(content: bytes, shape: Shape, kind: str) -> tuple[float, ...]:
    volume, written = math.prod(shape), form(shape, kind)
    if written != "int8":
        letter = "f" if written == "float32" else "e"
        return struct.unpack(f"<{volume}{letter}", content)
    scales = struct.unpack_from(f"<{min(shape)}f", content)
    steps = struct.unpack_from(f"<{volume}b", content, 4 * min(shape))
    found = [0.0] * volume
    for scale, line in zip(scales, lines(shape), strict=True):
        for place in line:
            found[place] = single(steps[place] * scale)
    return tuple(found)


def table(layout: Mapping[str, Shape]) -> bytes:
    return b"".join(
        struct.pack("<B", len(name))
        + name.encode("ascii")
        + struct.pack(f"<B{len(shape)}I", len(shape), *shape)
        for name, shape in layout.items()
    )


def size(layout: Mapping[str, Shape], kind: str) -> int:
    numbers = sum(bytes_of(shape, kind) for shape in layout.values())
    return HEAD + len(table(layout)) + numbers + TAIL


def write(
    tensors: Mapping[str, Tensor],
    digest: bytes,
    answers: bytes = bytes(4),
    kind: str = "float32",
    *,
    exact: bool = False,
) -> bytes:
    body = b"PACE" + bytes([VERSIONS[kind]]) + digest + answers + bytes([len(tensors)])
    body += table({name: tensor.shape for name, tensor in tensors.items()})
    for tensor in tensors.values():
        body += write_numbers(tensor, kind, exact=exact)
    return body + struct.pack("<I", zlib.crc32(body))


def read(frame: bytes, layout: Mapping[str, Shape] | None = None, kind: str | None = None) -> Frame:
    """Lines 1 to 9 of the page; without the job's layout and kind, 1, 6 and 7 are left out."""
    if layout is not None and len(frame) != size(layout, kind or "float32"):
        raise RefusedError("size")
    if len(frame) < HEAD + TAIL or frame[:4] != b"PACE":
        raise RefusedError("format")
    if frame[4] not in VERSIONS.values():
        raise RefusedError("version")
    if struct.pack("<I", zlib.crc32(frame[:-TAIL])) != frame[-TAIL:]:
        raise RefusedError("damaged")
    found, offset = read_table(frame)
    spoken = next(name for name, version in VERSIONS.items() if version == frame[4])
    if layout is not None and spoken != kind:
        raise RefusedError("version")
    if layout is not None and list(found.items()) != list(layout.items()):
        raise RefusedError("layout")
    if size(found, spoken) != len(frame):
        raise RefusedError("size")
    if spoken == "sealed":
        return Frame(frame[5:13], frame[13:17], read_sealed(frame[offset:-TAIL], found))
    tensors = {}
    for name, shape in found.items():
        end = offset + bytes_of(shape, spoken)
        tensors[name] = Tensor(shape, read_numbers(frame[offset:end], shape, spoken))
        offset = end
    if not all(math.isfinite(number) for each in tensors.values() for number in each.numbers):
        raise RefusedError("not-finite")
    return Frame(frame[5:13], frame[13:17], tensors)


def read_sealed(content: bytes, layout: Mapping[str, Shape]) -> dict[str, Tensor]:
    """Elements of the ring, as whole numbers."""
    count = sum(math.prod(shape) for shape in layout.values())
    words = struct.unpack(f"<{count}Q{count}I", content)
    elements = [high * 2**32 + low for high, low in zip(words[:count], words[count:], strict=True)]
    tensors, begin = {}, 0
    for name, shape in layout.items():
        end = begin + math.prod(shape)
        tensors[name] = Tensor(shape, tuple(elements[begin:end]))
        begin = end
    return tensors


def added_up(frames: Sequence[Frame]) -> dict[str, Tensor]:
    """What the uploads of a sealed job stand for, all of them together."""
    total = {}
    for name, first in frames[0].tensors.items():
        columns = zip(*(frame.tensors[name].numbers for frame in frames), strict=True)
        elements = [int(sum(column)) % 2**96 for column in columns]
        signed = [each - 2**96 if each >= 2**95 else each for each in elements]
        total[name] = Tensor(first.shape, tuple(each / 2**68 for each in signed))
    return total


def read_table(frame: bytes) -> tuple[dict[str, Shape], int]:
    found: dict[str, Shape] = {}
    offset = HEAD
    for _ in range(frame[17]):
        if offset >= len(frame):
            raise RefusedError("format")
        end = offset + 1 + frame[offset]
        if end >= len(frame):
            raise RefusedError("format")
        label, dimensions = frame[offset + 1 : end], frame[end]
        if not label.isascii():
            raise RefusedError("format")
        name = label.decode("ascii")
        if name in found:
            raise RefusedError("layout")
        offset = end + 1 + 4 * dimensions
        if offset > len(frame):
            raise RefusedError("format")
        shape = struct.unpack(f"<{dimensions}I", frame[end + 1 : offset])
        if dimensions > 8 or (0 in shape and math.prod(filter(None, shape)) > 2**40):
            raise RefusedError("layout")
        found[name] = shape
    return found, offset


def twister(seed: int) -> Iterator[int]:
    """The 32-bit outputs of MT19937, initialised as the page says."""
    state = [seed % 2**32]
    for place in range(1, 624):
        state.append((1812433253 * (state[-1] ^ (state[-1] >> 30)) + place) % 2**32)
    generator = random.Random()
    generator.setstate((3, (*state, 624), None))
    while True:
        yield generator.getrandbits(32)


def start(widths: Sequence[int], seed: int) -> dict[str, Tensor]:
    """W_0."""
    draws, made = twister(seed), {}
    for layer, (fan_in, fan_out) in enumerate(pairwise(widths)):
        bound = single(math.sqrt(6 / (fan_in + fan_out)))
        numbers = [
            single((2 * (next(draws) % 2**24 / 2**24) - 1) * bound) for _ in range(fan_in * fan_out)
        ]
        made[f"{layer}.weight"] = Tensor((fan_out, fan_in), tuple(numbers))
        made[f"{layer}.bias"] = Tensor((fan_out,), (0.0,) * fan_out)
    return made


@dataclass(frozen=True)
class Job:
    """A job of PACE, as its file says it."""

    content: Mapping[str, Any]

    @classmethod
    def read(cls, text: str) -> "Job":
        content = tomllib.loads(text)
        said = content.pop("signed-off")["sha256"]
        job = cls(content)
        if job.digest != said:
            raise RefusedError("other-job")
        return job

    @cached_property
    def digest(self) -> str:
        plain = json.dumps(self.content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(plain.encode("ascii")).hexdigest()

    @property
    def kind(self) -> str:
        return str(self.content["numbers"])

    @property
    def rank(self) -> int | None:
        rank = self.content["method"]["rank"]
        return None if rank == "dense" else int(rank)

    @property
    def widths(self) -> list[int]:
        model = self.content["model"]
        return [model["features"], *model["hidden"], model["classes"]]

    @cached_property
    def start_bytes(self) -> bytes:
        made = start(self.widths, self.content["model"]["seed"])
        return b"".join(
            name.encode("ascii") + struct.pack(f"<{len(each.numbers)}f", *each.numbers)
            for name, each in made.items()
        )

    @property
    def start_digest(self) -> str:
        return hashlib.sha256(self.start_bytes).hexdigest()[:16]

    @cached_property
    def federation(self) -> bytes:
        """The eight bytes of every frame."""
        model, training = self.content["model"], dict(self.content["training"])
        gcn = {"dropout": model["dropout"], "kind": "GCN", "widths": self.widths}
        method = {"gate": "cnll", "geometry": "propagated", "kind": "Pace", "rank": self.rank}
        agreed = {
            "clients": 0,
            "decay": training["decay"],
            "epochs": training["epochs"],
            "job": self.digest,
            "kind": "Federation",
            "method": method,
            "model": gcn,
            "numbers": self.kind,
            "rate": training["rate"],
            "sealed": False,
            "seed": model["seed"],
        }
        recipe = {"clip": None, "kind": "Recipe", "penalty": None, **training}
        settings = json.dumps([agreed, recipe, gcn], sort_keys=True)
        return hashlib.sha256(settings.encode("ascii") + self.start_bytes).digest()[:8]

    def layout(self, *, upload: bool) -> dict[str, Shape]:
        made: dict[str, Shape] = {}
        for layer, (fan_in, fan_out) in enumerate(pairwise(self.widths)):
            name = f"{layer}.weight"
            if self.rank is not None and min(fan_in, fan_out) > self.rank:
                made |= {f"{name}/L": (fan_out, self.rank), f"{name}/R": (self.rank, fan_in)}
            else:
                made[name] = (fan_out, fan_in)
            made[f"{layer}.bias"] = (fan_out,)
        if upload:
            made |= {f"{layer}.weight/m": (width,) for layer, width in enumerate(self.widths[:-1])}
        return made

    def check_upload(self, frame: bytes) -> Frame:
        """Lines 1 to 12."""
        found = read(frame, self.layout(upload=True), self.kind)
        if found.digest != self.federation:
            raise RefusedError("other-job")
        if found.answers != bytes(4):
            raise RefusedError("layout")
        if max(abs(number) for tensor in found.tensors.values() for number in tensor.numbers) > 1e9:
            raise RefusedError("not-finite")
        for name, tensor in found.tensors.items():
            if name.endswith("/m"):
                mean = math.fsum(tensor.numbers) / len(tensor.numbers)
                if min(tensor.numbers) < 0 or mean > 1 + 1e-3:
                    raise RefusedError("moment")
        return found

    def check_return(self, frame: bytes, sent: bytes) -> Frame:
        """Lines 1 to 11; `sent` is the upload of this client."""
        found = read(frame, self.layout(upload=False), self.kind)
        if found.digest != self.federation:
            raise RefusedError("other-job")
        if found.answers != sent[-TAIL:]:
            raise RefusedError("other-receiver")
        return found

    def public(self, party: str) -> bytes:
        """The 32 raw bytes of a party's key."""
        return base64.b64decode(self.content["keys"][party].removeprefix("ed25519:"))

    def statement(self, kind: str, participant: str, frame: bytes) -> bytes:
        """What is signed."""
        lines = f"pace {kind}\n{self.digest}\n{participant}\n".encode()
        return lines + hashlib.sha256(frame).digest()


def fingerprint(public: bytes) -> bytes:
    return hashlib.sha256(public).digest()[:8]
