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
from pace.protocol.method import Message
from pace.protocol.steps import Kept, check_upload
from pace.runtimes.files.members import TENSOR, Members
from pace.runtimes.files.tensors import encode_tensors, parameters, read_tensors

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
        values = {**self.kept.local, "upload": upload, TENSOR: self.members.table}
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
    members = Members.checked(about.get("salt"), values.get(TENSOR), path)
    return KeptModel(Kept(local, wire.checksum(frame)), frame, message, trained, members)
