"""What a key has sealed, so that no mask is used twice, and who a job says takes part.

The memory is one for all copies of a key: in the user's state folder, by the key's fingerprint.

sealed/FINGERPRINT/DIGEST.json: the job, its seed, its participants and their keys, the SHA-256 of the
upload's frame
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pace.errors import FileError, OverlapError, SettingError, SignatureError
from pace.io import atomic, plain_record, records, state_folder, untrusted
from pace.jobs import Job, signatures
from pace.tables import listed

FORMAT = "pace-sealed-1"
LARGEST = 16 * 2**20  # bytes, as of a job with all its keys
PATIENCE = 30.0  # seconds for another fit to write down what it sealed
LEAST_KNOWN = 2  # others whose keys a site knows: a sum is then over three sites that exist


@dataclass(frozen=True)
class SealedJob:
    """A job that this key has sealed an upload for."""

    job: str  # its name
    digest: str
    seed: int
    participants: dict[str, str]  # public keys by name
    upload: str  # SHA-256 of the frame
    format: str = FORMAT


def memory(key: signatures.Key) -> Path:
    """The folder of what a key has sealed."""
    return state_folder() / "sealed" / signatures.fingerprint(signatures.public_key(key)).hex()


def remember(key: signatures.Key, job: Job, frame: bytes, *, agreed: bool = False) -> None:
    """Write down that this frame was sealed, before it can be sent; refuse another for the same job.

    What overlaps is asked again: another job may have been sealed while this one trained.
    """
    sealed = signatures.sha256_of(frame)
    record = plain_record(SealedJob(job.name, job.digest, job.seed, _keys(job), sealed))
    path = memory(key) / f"{job.digest}.json"
    content = (json.dumps(record, indent=1) + "\n").encode()
    with atomic.held(path.with_name(".lock"), "another fit seals with this key", PATIENCE):
        check_overlap(key, job, agreed=agreed)
        created = atomic.create(path, content, private=True)
    if not created:
        earlier = records.load_record(SealedJob, path, LARGEST, FORMAT)
        if earlier.upload != sealed:
            raise FileError(
                f"another upload was sealed for this job before ({earlier.upload[:16]}): two under the "
                "same masks would give away their difference; restore what was kept or ask for a new job"
            )


def check_overlap(key: signatures.Key, job: Job, *, agreed: bool) -> list[str]:
    """What this job's sum and those of all earlier sealed jobs would tell together, unless `agreed`."""
    paths = (path for path in sorted(memory(key).glob("*.json")) if path.stem != job.digest)
    earlier = [records.load_record(SealedJob, path, LARGEST, FORMAT) for path in paths]
    sentences = [sentence for past in earlier if (sentence := _overlap(past, job))]
    if names := exposed([*(past.participants for past in earlier), _keys(job)]):
        sentences.append(
            f"All these sums together give away the part of {', '.join(names)} alone, where "
            "trainings and graphs are the same: to agree is to agree for them."
        )
    if sentences and not agreed:
        raise OverlapError(
            f"{' '.join(sentences)} Give --overlapping if you agree to that (of a node on a network: "
            "overlapping = true in its node.toml), or ask for a job with other participants"
        )
    return sentences


def exposed(jobs: Sequence[Mapping[str, str]]) -> list[str]:
    """Who can be told apart by the sums of all jobs, and not without the last of them.

    A sum is a row of zeros and ones over sites. What can be computed from sums is the span of their
    rows; a site is given away when its own unit vector is in it.
    """
    members = _sites(jobs)
    names = {site: name for row in members for site, name in row.items()}
    rows = np.array([[float(site in row) for site in names] for row in members])
    alone = _in_span(rows) & ~_in_span(rows[:-1])
    return sorted(name for name, exposed in zip(names.values(), alone, strict=True) if exposed)


def _sites(jobs: Sequence[Mapping[str, str]]) -> list[dict[int, str]]:
    """Of each job, its names by site: one site under another name with its key, or the reverse."""
    sites: dict[tuple[str, str], int] = {}  # by kind of mark and the mark
    for number, (name, public) in enumerate(pair for job in jobs for pair in job.items()):
        same = {sites.get(("name", name), number), sites.get(("key", public), number)}
        sites |= {mark: min(same) for mark, site in sites.items() if site in same}
        sites |= {("name", name): min(same), ("key", public): min(same)}
    return [{sites["name", name]: name for name in job} for job in jobs]


def _in_span(rows: Any) -> Any:
    """Which unit vectors are in the span of the rows: those whose projection has length one."""
    _, values, vectors = np.linalg.svd(rows, full_matrices=False)
    basis = vectors[values > 1e-9 * max(1, *rows.shape)]
    return np.square(basis).sum(0) > 1 - 1e-9


def _keys(job: Job) -> dict[str, str]:
    return {name: job.keys[name] for name in job.participants}


def _overlap(earlier: SealedJob, job: Job) -> str | None:
    """What two sums tell that one does not; None where no other participant was in both."""
    before, now = _sites([earlier.participants, _keys(job)])
    gone = sorted(before[site] for site in before.keys() - now.keys())
    new = sorted(now[site] for site in now.keys() - before.keys())
    if len(before) - len(gone) < 2:
        return None
    differ = [f"{word} {', '.join(n)}" for word, n in (("without", gone), ("with", new)) if n]
    exactly = "all that they sent" if earlier.seed == job.seed else "their moments"
    whose = f"about {listed((*gone, *new), 12)} {exactly} exactly, if other graphs are the same"
    return (
        f"This site sealed an upload for job {earlier.job!r} ({earlier.digest[:16]}); this one has the "
        f"same participants {' and '.join(differ) or 'and no others'}: the difference of both sums "
        f"tells {whose if differ else 'how two trainings differ'}."
    )


def check_known(job: Job, name: str, path: Path, least: int = LEAST_KNOWN) -> list[str]:
    """The other participants whose keys a site knows from elsewhere; refuse too few, or another key.

    The file has a line for each, a public key or its fingerprint, then perhaps the name, as .pub files.
    """
    with records.reading(path, "not text", "give public keys or fingerprints, one a line"):
        lines = untrusted.read(path, LARGEST).decode("utf-8-sig").splitlines()
    marks: dict[str, str] = {}  # whole keys or fingerprints, each with a name or without
    for line in lines:
        mark, _, called = line.partition("#")[0].strip().partition(" ")
        if mark and not mark.startswith(signatures.SEALING_KIND):  # the second line of a .pub file
            marks[mark] = called.strip()
    known = []
    for other, public in job.keys.items():
        own = {public, signatures.fingerprint(public).hex()}
        if wrong := [mark for mark, called in marks.items() if called == other and mark not in own]:
            raise SignatureError(
                f"the job gives {other!r} the key {public}, {path} has {wrong[0]} for it: ask {other} "
                "and the maker of the job which is right"
            )
        if own & marks.keys() and other != name and other in job.participants:
            known.append(other)
    if len(known) < least:
        unknown = [other for other in job.participants if other not in (*known, name)]
        raise SettingError(
            f"{len(known)} other participants are in {path}, expected {least} or more: the maker of the "
            f"job may have invented {listed(unknown, 12)}; ask them for their keys"
        )
    return known
