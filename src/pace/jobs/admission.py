"""May this upload count? One function says so, before anything else happens with it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pace.errors import ParticipantError, SignatureError, SizeError
from pace.jobs import signatures
from pace.jobs.job import Job, is_name
from pace.protocol import steps, wire
from pace.protocol.method import Message


@dataclass(frozen=True, eq=False)
class Admitted:
    """An upload that may count, and whose it is."""

    name: str
    content: bytes  # as it came, with its signature if the job asks for one
    message: Message


def admit(content: bytes, sender: str, job: Job) -> Admitted:
    """The upload, or the error that says why not; its `code` is stable.

    In this order: exact size, who sent it, the frame, its job, its tensors, its numbers. `sender` is
    what the carrier says (a file's name, a node's); with signatures only the key counts.
    """
    check_size(len(content), job)
    name = sender
    if job.signed:
        name = _signer(content, job)
        signatures.verify(
            content, job.keys[name], kind=signatures.UPLOAD, job=job.digest, name=name
        )
    elif job.participants and name not in job.participants:
        raise ParticipantError(
            f"{name!r} is not among the job's participants: {', '.join(job.participants[:12])}"
        )
    elif not is_name(name):
        raise ParticipantError(
            f"{name!r} is not a valid name: use letters, digits, dots, dashes and underscores"
        )
    message = steps.check_upload(frame_of(content, job), job.federation)
    return Admitted(name, content, message)


def check_size(size: int, job: Job) -> None:
    """Every upload of a job has the same size, so this needs no look at its bytes."""
    if size != exact_size(job):
        raise SizeError(f"the upload has {size:,} bytes, expected exactly {exact_size(job):,}")


def exact_size(job: Job) -> int:
    frame = wire.size(steps.upload_layout(job.federation))
    return frame + (signatures.TRAILER if job.signed else 0)


def frame_of(content: bytes, job: Job) -> bytes:
    """A message without its signature."""
    return content[: -signatures.TRAILER] if job.signed else content


def _signer(content: bytes, job: Job) -> str:
    names = _by_fingerprint(job)
    found = signatures.signer(content)
    if found not in names:
        raise SignatureError(
            f"the upload is signed by key {found.hex()}, which the job does not list: "
            "sign it with the key the job was made with"
        )
    return names[found]


@lru_cache(maxsize=16)
def _by_fingerprint(job: Job) -> dict[bytes, str]:
    return {signatures.fingerprint(job.keys[name]): name for name in job.participants}
