"""What a client keeps between the steps, as a file: its Local model and the upload it made.

The frame of the upload lies in the file, so that sending again never means making again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from pace.errors import FileError, OtherJobError
from pace.io import records
from pace.jobs.job import Job
from pace.protocol import wire
from pace.protocol.steps import Kept, check_upload
from pace.runtimes.files import members, tensors
from pace.runtimes.files.members import Members

FORMAT = "pace-kept-1"


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
class KeptFile:
    """The local model, the upload's frame, and how they came about."""

    kept: Kept
    frame: bytes
    about: Trained
    members: Members | None = None  # None in a file made before models remembered

    def encode(self, job: Job) -> bytes:
        about = {
            "format": FORMAT,
            "job": job.digest,
            "upload": self.kept.upload.hex(),
            **records.plain_record(self.about),
        }
        values = {
            **self.kept.local,
            "upload": torch.frombuffer(bytearray(self.frame), dtype=torch.uint8),
        }
        if self.members is not None:
            about["salt"] = self.members.salt.hex()
            values[members.TENSOR] = self.members.table
        return tensors.encode(values, about)


def read(path: Path, job: Job) -> KeptFile:
    """The kept model of this job."""
    about, found = tensors.read(path, FORMAT)
    if about.get("job") != job.digest:
        raise OtherJobError(
            f"{path} belongs to job {str(about.get('job'))[:16]}, this is {job.digest[:16]}: "
            "give each job files of its own"
        )
    local = tensors.params(found, wire.layout(job.federation.start), path)
    try:
        frame, trained = found["upload"].numpy().tobytes(), records.read_record(Trained, about)
    except (LookupError, ValueError) as error:
        raise FileError(f"{path} is incomplete ({error}): restore it from a backup") from error
    check_upload(frame, job.federation)
    remembered = found.get(members.TENSOR)
    seen = None if remembered is None else Members.read(about.get("salt"), remembered, path)
    return KeptFile(Kept(local, wire.checksum(frame)), frame, trained, seen)
