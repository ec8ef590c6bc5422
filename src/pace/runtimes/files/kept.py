"""What a client keeps between the steps, as a file, and how tensors lie in files.

A kept model holds Local and the frame of its upload, so that sending again never means making again.
Files are safetensors with a JSON object about the tensors, read without trusting either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from pace.errors import FileError, OtherJobError
from pace.io import records, untrusted
from pace.jobs.job import Job
from pace.protocol import wire
from pace.protocol.method import Message
from pace.protocol.steps import Kept, check_upload
from pace.runtimes.files.site import Members

FORMAT = "pace-kept-1"
HEADER = 2**20  # bytes of the largest header we write or read
LARGEST = 2**30  # bytes of a file; the largest model and its upload take a third
DTYPES = ("F32", "U8")
MEMBERS = "members"  # the tensor of whom a model was trained on


@dataclass(frozen=True)
class Trained:
    """How a kept model came about."""

    name: str
    """The participant."""
    graph: str
    """The graph's fingerprint."""
    trained: str
    """When, in UTC."""
    seconds: float
    device: str
    versions: dict[str, str]


@dataclass(frozen=True, eq=False)
class KeptModel:
    """The local model, the upload it made, and how they came about."""

    kept: Kept
    frame: bytes
    """The upload, without a signature."""
    message: Message
    """What the frame holds."""
    about: Trained
    members: Members

    def encode(self, job: Job) -> bytes:
        about = {
            "format": FORMAT,
            "job": job.digest,
            "upload": self.kept.upload.hex(),
            **records.plain_record(self.about),
            "salt": self.members.salt.hex(),
        }
        upload = torch.frombuffer(bytearray(self.frame), dtype=torch.uint8)
        values = {**self.kept.local, "upload": upload, MEMBERS: self.members.table}
        return encode_tensors(values, about)


def read_kept(path: Path, job: Job) -> KeptModel:
    """The kept model of this job."""
    about, values = read_tensors(path, FORMAT)
    if about.get("job") != job.digest:
        raise OtherJobError(
            f"{path} belongs to job {str(about.get('job'))[:16]}, this is {job.digest[:16]}: "
            "give each job files of its own"
        )
    local = parameters(values, wire.layout(job.federation.start), path)
    try:
        frame = values["upload"].numpy().tobytes()
        trained = records.read_record(Trained, about)
    except (LookupError, ValueError) as error:
        raise FileError(f"{path} is incomplete ({error}): restore it from a backup") from error
    message = check_upload(frame, job.federation)
    members = Members.checked(about.get("salt"), values.get(MEMBERS), path)
    return KeptModel(Kept(local, wire.checksum(frame)), frame, message, trained, members)


def encode_tensors(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> bytes:
    values = {name: value.contiguous() for name, value in tensors.items()}
    return save(values, {"pace": json.dumps(about)})


def read_tensors(path: Path, version: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What the file says about itself, and its tensors; refused if it is of another format."""
    try:
        content = untrusted.read(path, LARGEST)
        about = _about(read_header(content))
        if about.get("format") != version:
            raise FileError(f"{path} has format {about.get('format')!r}, expected {version!r}")
        return about, load(content)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error
    except FileError:
        raise
    except (SafetensorError, ValueError, AttributeError, TypeError) as error:
        raise FileError(
            f"{path} is damaged, or another kind of file ({error}): `pace inspect` says what it is"
        ) from error


def read_about(path: Path) -> dict[str, Any]:
    """What the file says about itself; its tensors are not read."""
    return _about(read_header(untrusted.read_head(path, 8 + HEADER)))


def _about(header: dict[str, Any]) -> dict[str, Any]:
    """Our own object in a header, empty if there is none."""
    about = untrusted.json(header.get("__metadata__", {}).get("pace", "{}"))
    return about if isinstance(about, dict) else {}


def read_header(content: bytes) -> dict[str, Any]:
    """The header, with what the library lets pass refused: its size, a name twice, other types."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(HEADER, len(content) - 8):
        raise ValueError("its header is cut short or too long")

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(names := dict(pairs)) < len(pairs):
            raise ValueError("a name occurs twice in its header")
        return names

    header = untrusted.json(content[8 : 8 + length], pairs=table)
    if not isinstance(header, dict):
        raise ValueError("its header is not a table of tensors")
    for name, entry in header.items():
        if name != "__metadata__" and entry.get("dtype") not in DTYPES:
            raise ValueError(f"tensor {name!r} has type {entry.get('dtype')!r}")
    return header


def parameters(
    tensors: Mapping[str, Tensor], expected: wire.Layout, path: Path, *, finite: bool = True
) -> dict[str, Tensor]:
    """The parameters among the tensors, exactly as the job's model has them."""
    params = {name: tensors[name] for name in expected if name in tensors}
    if wire.layout(params) != dict(expected):
        raise FileError(
            f"{path} holds {wire.say(wire.layout(params))}, the job's model has {wire.say(expected)}"
        )
    if finite and not all(torch.isfinite(value).all() for value in params.values()):
        raise FileError(f"{path} holds numbers that are not finite: restore it from a backup")
    return params
