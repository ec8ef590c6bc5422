"""What an upload or a return holds, and whether it is sound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from pace.errors import PaceError, SignatureError
from pace.io import records, regular
from pace.jobs import signatures
from pace.jobs.admission import admit
from pace.jobs.disclosure import words
from pace.jobs.job import SERVER, Job
from pace.jobs.journal import PastRefusal
from pace.protocol import number_formats, ring, steps, wire
from pace.runtimes.files.intake import sender
from pace.runtimes.files.tensors import LARGEST


@dataclass(frozen=True)
class TensorFacts:
    """One tensor of a file."""

    name: str
    shape: tuple[int, ...]
    bytes: int
    """As they were written."""
    what: str
    """What it is, in words."""
    min: float | None
    """None where it is empty or sealed."""
    max: float | None
    zeros: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What can be said of a file."""

    kind: str
    version: str | int
    details: dict[str, object] = field(default_factory=dict, metadata=records.REST)
    """What only this kind of file has."""
    tensors: tuple[TensorFacts, ...] = field(default=(), metadata=records.OPTIONAL)
    refused: tuple[PastRefusal, ...] | None = field(default=None, metadata=records.OPTIONAL)
    """Of a journal."""
    sanity: tuple[str, ...]
    """Whether it is sound, in words; `NOT` where it is not."""


def message(path: Path, job: Job | None) -> Facts:
    """The facts of a message; with the job, whether it is one of its messages."""
    head = regular.read_head(path, wire.LONGEST_OPENING).ljust(wire.HEAD.size)
    _, version, digest, answers, count = wire.HEAD.unpack_from(head)
    shapes, _ = wire.read_table(head, count)
    size = wire.size(shapes)
    content = regular.read(path, min(size + signatures.TRAILER, LARGEST))
    signed = len(content) == size + signatures.TRAILER
    frame = wire.decode(content[:size] if signed else content)
    upload = answers == wire.NOBODY
    sealed = shapes.numbers == wire.SEALED
    found = "its numbers are sealed" if sealed else "all numbers are finite"
    sanity = ["complete, its checksum fits", found]
    if job is not None:
        sanity.append(_belongs(content, frame, path, job))
    return Facts(
        kind="upload" if upload else "return",
        version=version,
        details={
            "numbers": shapes.numbers,
            "federation": digest.hex(),
            "checksum": wire.checksum(content[:size]).hex(),
            **({} if upload else {"answers": answers.hex()}),
            "frame_bytes": size,
            "signature_bytes": signatures.TRAILER if signed else 0,
            **({"signed_by": signatures.signer(content).hex()} if signed else {}),
        },
        tensors=_sealed(shapes) if sealed else tensors(frame.message, shapes.numbers),
        sanity=tuple(sanity),
    )


def _belongs(content: bytes, frame: wire.Frame, path: Path, job: Job) -> str:
    """Whether the job's server would take the upload, or the return is of the job."""
    try:
        if frame.answers == wire.NOBODY:
            return f"the job takes it as the upload of {admit(content, sender(path), job).name}"
        trailer = signatures.TRAILER if job.signed else 0
        expected = wire.size(steps.return_layout(job.federation)) + trailer
        if len(content) != expected or frame.digest != job.federation.digest:
            return "NOT of this job"
        return f"a return of this job{_receiver(content, job)}"
    except PaceError as error:
        return f"NOT taken ({error.code}): {error}"


def _receiver(content: bytes, job: Job) -> str:
    """To whom a signed return goes; its file may have any name."""
    if not job.signed:
        return ""
    for name in job.participants:
        try:
            signatures.verify(
                content, job.keys[SERVER], kind=signatures.RETURN, job=job.digest, name=name
            )
        except SignatureError as error:
            last = error
        else:
            return f", to {name}"
    raise last


def _sealed(shapes: wire.Layout) -> tuple[TensorFacts, ...]:
    """Of sealed tensors nothing but their shapes can be said."""
    return tuple(
        TensorFacts(name, tuple(shape), ring.NUMBER * volume, "sealed", None, None, 0)
        for (name, shape), volume in zip(shapes.items(), shapes.volumes, strict=True)
    )


def tensors(message: Mapping[str, Tensor], numbers: str = "float32") -> tuple[TensorFacts, ...]:
    """A line for each tensor of numbers, with its bytes as they were written."""
    update = any("/" in name for name in message)  # factors or moments: PACE's
    return tuple(
        TensorFacts(
            name,
            tuple(value.shape),
            number_formats.size(tuple(value.shape), numbers),
            words(name, update),
            float(value.min()) if value.numel() else None,
            float(value.max()) if value.numel() else None,
            int((value == 0).sum()),
        )
        for name, value in message.items()
        if value.dtype == torch.float32
    )
