"""May this upload count? One function says so, before anything else happens with it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from pace.errors import ParticipantError, SignatureError, SizeError, WithdrawnError
from pace.jobs import signatures
from pace.jobs.editions import Evidence, current_edition
from pace.jobs.job import Job, is_name
from pace.protocol import Federation, layouts, steps, wire


@dataclass(frozen=True, eq=False)
class Admitted:
    """An upload that may count, and whose it is."""

    name: str
    content: bytes  # as it came, with its signature if the job asks for one


def admit(content: bytes, sender: str, job: Job) -> Admitted:
    """The upload, or the error that says why not; its `code` is stable.

    In this order: exact size, who sent it, the frame, its job, its tensors, its numbers. `sender` is
    what the carrier says (a file's name, a node's); with signatures only the key counts.
    """
    size, name = exact_size(job), sender
    if len(content) != size:  # every upload of a job has the same, so this looks at no byte
        raise SizeError(f"the upload has {len(content):,} bytes, expected exactly {size:,}")
    if job.signed:
        key = signatures.signer(content)
        if key not in (names := _by_fingerprint(job)):
            for left, leaver in current_edition(job).left.items():
                if signatures.fingerprint(leaver.key) == key:
                    raise WithdrawnError(f"{left!r} left with edition {leaver.edition}")
            raise SignatureError(
                f"the upload is signed by key {key.hex()}, which the job does not list: sign it with "
                "the key the job was made with"
            )
        name = names[key]
        Evidence.of(content).check(job, name)
    elif job.participants and name not in job.participants:
        raise ParticipantError(
            f"{name!r} is not among the job's participants: {', '.join(job.participants[:12])}"
        )
    elif not is_name(name):
        raise ParticipantError(f"{name!r} is not a valid name: use letters, digits and . _ -")
    steps.check_upload(frame_of(content, job), job.federation)
    return Admitted(name, content)


def exact_size(
    job: Job, layout: Callable[[Federation], wire.Layout] = layouts.upload_layout
) -> int:
    """The bytes of every upload of a job, or of every return, with its signature."""
    return layout(job.federation).size + signatures.TRAILER * job.signed


def frame_of(content: bytes, job: Job) -> bytes:
    """A message without its signature."""
    return content[: -signatures.TRAILER] if job.signed else content


@lru_cache(maxsize=16)
def _by_fingerprint(job: Job) -> dict[bytes, str]:
    return {signatures.fingerprint(job.keys[name]): name for name in job.participants}
