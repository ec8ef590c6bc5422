"""What a key has sealed: one small file a job, beside the key, so that no mask is used twice.

KEY.sealed/DIGEST.json: the job, its seed, its participants and their keys, the SHA-256 of the
upload's frame
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from pace.errors import FileError, OverlapError
from pace.io import atomic, load_record, plain_record
from pace.jobs import Job

FORMAT = "pace-sealed-1"
LARGEST = 16 * 2**20  # bytes, as of a job with all its keys


@dataclass(frozen=True)
class SealedJob:
    """A job that this key has sealed an upload for."""

    job: str  # its name
    digest: str
    seed: int
    participants: dict[str, str]  # public keys by name
    upload: str  # SHA-256 of the frame
    format: str = FORMAT


def remember(key: Path, job: Job, frame: bytes) -> None:
    """Write down that this frame was sealed, before it can be sent; refuse another for the same job."""
    sealed = hashlib.sha256(frame).hexdigest()
    parties = {name: job.keys[name] for name in job.participants}
    record = plain_record(SealedJob(job.name, job.digest, job.seed, parties, sealed))
    path = key.with_name(f"{key.name}.sealed") / f"{job.digest}.json"
    path.parent.mkdir(exist_ok=True)
    if not atomic.create(path, (json.dumps(record, indent=1) + "\n").encode()):
        earlier = load_record(SealedJob, path, LARGEST, FORMAT)
        if earlier.upload != sealed:
            raise FileError(
                f"another upload was sealed for this job before ({earlier.upload[:16]}): two under "
                "the same masks would give away their difference; restore what was kept then, or "
                "ask for a new job"
            )


def check_overlap(key: Path, job: Job, *, agreed: bool) -> list[str]:
    """What this job's sum and those of earlier sealed jobs would tell together, unless `agreed`."""
    paths = sorted(key.with_name(f"{key.name}.sealed").glob("*.json"))
    earlier = [load_record(SealedJob, path, LARGEST, FORMAT) for path in paths]
    sentences = [sentence for past in earlier if (sentence := _overlap(past, job))]
    if sentences and not agreed:
        raise OverlapError(
            " ".join(sentences)
            + " Give --overlapping if you agree to that (of a node on a network: "
            "overlapping = true in its node.toml), or ask for a job with other participants"
        )
    return sentences


def _overlap(earlier: SealedJob, job: Job) -> str | None:
    """What two sums tell that one does not; None where no other participant was in both."""
    mine = {job.keys[name]: name for name in job.participants}
    theirs = {public: name for name, public in earlier.participants.items()}
    if earlier.digest == job.digest or len(mine.keys() & theirs.keys()) < 2:
        return None
    gone = sorted(theirs[public] for public in theirs.keys() - mine.keys())
    new = sorted(mine[public] for public in mine.keys() - theirs.keys())
    differ = [f"{word} {', '.join(n)}" for word, n in (("without", gone), ("with", new)) if n]
    exactly = "all that they sent" if earlier.seed == job.seed else "their moments"
    reveals = (
        "whoever sees both sums can subtract them and sees about those who are in one only: "
        f"{exactly} exactly, where the graphs of the others are the same"
        if differ
        else "both sums are over the same sites: their difference tells how two trainings differ"
    )
    return (
        f"This site sealed an upload for job {earlier.job!r} ({earlier.digest[:16]}); this one has the "
        f"same participants {' and '.join(differ) or 'and no others'}: {reveals}."
    )
