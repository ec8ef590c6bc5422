"""A client's first step over files: train once, keep Local, write the one upload.

`fit` is the whole step, the same for the command line and for a node of a network.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import normalize

from pace.errors import FileError, GraphError, ParticipantError, SettingError, SignatureError
from pace.io import atomic, lock, records, regular
from pace.io.versions import installed
from pace.jobs import sealing, signatures
from pace.jobs.disclosure import Disclosure, Item, disclosure
from pace.jobs.job import Job, check_name
from pace.jobs.journal import UP
from pace.protocol import steps
from pace.protocol.steps import check_upload
from pace.runtimes.files import kept as kept_file
from pace.runtimes.files import sealed_jobs
from pace.runtimes.files.kept import KeptFile, Trained
from pace.runtimes.files.members import Members
from pace.runtimes.files.site import Site

if TYPE_CHECKING:
    from pace.jobs.signatures import Key


@dataclass(frozen=True, eq=False)
class Identity:
    """Whose upload it is, and the key that proves it where the job has keys."""

    name: str
    key: Key | None = None


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What was made for sending, for the site's records."""

    format: str = "pace-receipt-1"
    job: dict[str, str]
    """Name and digest."""
    name: str
    """The participant."""
    upload: dict[str, str]
    """SHA-256 of the file, checksum of the frame, digest of the federation."""
    bytes: dict[str, float]
    """Of the file and its parts, and of the model sent whole."""
    tensors: tuple[Item, ...]
    """What the upload holds, in plain words."""
    zero_moments: dict[str, int]
    """How many columns of the first layer have none, and of how many."""
    trained: str
    """When, in UTC."""
    seconds: float
    device: str
    versions: dict[str, str]


@dataclass(frozen=True, eq=False)
class Fitted:
    """What `fit` wrote."""

    receipt: Receipt
    """What was made for sending, for the site's records; the same whenever it is asked for."""
    seconds: float
    """Of training."""
    again: bool
    """Whether an earlier run had trained: then nothing was trained now."""


def fit(
    job: Job,
    site: Site,
    *,
    keep: Path,
    upload: Path,
    receipt: Path,
    key: Path | None = None,
    device: str = "cpu",
    overlapping: bool = False,
    confirm: Callable[[Disclosure], bool] = lambda disclosed: True,
    progress: Callable[[int], None] | None = None,
) -> Fitted | None:
    """Train, or find what an earlier run kept; write Local, the upload and a receipt.

    Args:
        keep: where Local stays; it is never sent.
        upload: the file to send, `NAME.up`.
        receipt: where the record of what was made for sending goes.
        key: the site's private key, if the job has keys.
        overlapping: agree to what the sums of this and of earlier sealed jobs tell together.
        confirm: is told what will leave the site before anything is written, and may say no.

    Returns:
        What was written; None, and nothing written, where `confirm` said no.
    """
    who = identity(job, upload, key)
    if job.sealed and key is not None:
        sealed_jobs.check_overlap(key, job, agreed=overlapping)
    busy = f"another fit is at work on {keep}"
    with lock.held(keep.with_name(f".{keep.name}.lock"), busy):
        return _fit(
            job,
            site,
            who,
            (keep, upload, receipt),
            key,
            device=device,
            confirm=confirm,
            progress=progress,
        )


def _fit(
    job: Job,
    site: Site,
    who: Identity,
    files: tuple[Path, Path, Path],
    key: Path | None,
    *,
    device: str,
    confirm: Callable[[Disclosure], bool],
    progress: Callable[[int], None] | None,
) -> Fitted | None:
    keep, upload, receipt = files
    made = _earlier(job, site, who, keep, upload)
    again = made is not None
    if made is None:
        made = _train(job, site, who, device=device, progress=progress)
    message = check_upload(made.frame, job.federation)
    trailer = signatures.TRAILER if job.signed else 0
    disclosed = disclosure(message, job.federation, trailer, site.graph)
    if not confirm(disclosed):
        return None
    sent = _content(job, who, made.frame)
    if job.sealed and key is not None:
        sealed_jobs.remember(key, job, made.frame)
    _write(job, made, keep, upload, sent)
    record = _receipt(job, who, made, sent, disclosed)
    atomic.sweep(receipt)
    atomic.write(receipt, (json.dumps(records.plain_record(record), indent=1) + "\n").encode())
    return Fitted(record, made.about.seconds, again)


def apart(files: Mapping[str, Path | None]) -> None:
    """No two files of a command may be one: a receipt would replace a model, a model be sent."""
    seen: dict[Path, str] = {}
    for what, path in files.items():
        if path is None:
            continue
        if (other := seen.setdefault(path.resolve(), what)) != what:
            raise SettingError(f"{other} and {what} are both {path}: give each a file of its own")


def identity(job: Job, upload: Path, key: Path | None) -> Identity:
    """With keys, the participant whose key it is; without, the one the upload is named after."""
    if upload.suffix != UP:
        raise SettingError(f"--upload is {upload}, expected a name that ends in {UP}")
    if not job.signed:
        name = normalize("NFC", upload.stem)
        if job.participants and name not in job.participants:
            raise ParticipantError(
                f"--upload is {upload.name}, and {name!r} is not among the job's participants "
                f"({', '.join(job.participants[:12])}): the server knows an upload by its file's "
                "name, such as " + f"{job.participants[0]}.up"
            )
        check_name(name, "the upload's name")
        return Identity(name)
    if key is None:
        raise SettingError("this job's uploads are signed: give your private key with --key")
    loaded = signatures.load(key)
    mine = signatures.public_of(loaded)
    names = [name for name in job.participants if job.keys[name] == mine]
    if not names:
        raise SignatureError(
            f"{key} is key {signatures.fingerprint(mine).hex()}, which the job does not list"
        )
    return Identity(names[0], loaded)


def _earlier(job: Job, site: Site, who: Identity, keep: Path, upload: Path) -> KeptFile | None:
    """What an earlier run of this job kept; one job never gets two different uploads."""
    atomic.sweep(keep)
    atomic.sweep(upload)
    if not keep.exists():
        if upload.exists():
            raise FileError(
                f"{upload} exists, but {keep}, the model that made it, was not found: restore {keep} "
                f"or, if the upload was never sent, remove it"
            )
        return None
    found = kept_file.read(keep, job)
    if found.about.name != who.name:
        raise FileError(f"{keep} belongs to {found.about.name!r}, you are {who.name!r}")
    if found.about.graph != site.graph.fingerprint:
        raise FileError(
            f"{keep} was trained on another graph, and a job takes one upload a client: use the "
            "graph it was trained on, or ask for a new job"
        )
    return found


def _train(
    job: Job, site: Site, who: Identity, *, device: str, progress: Callable[[int], None] | None
) -> KeptFile:
    """Train from W_0. The upload is checked here as the server will check it."""
    if not (site.graph.train | site.graph.val | site.graph.test).any():
        raise GraphError(
            "the graph has no labels, so there is nothing to learn from: import it with --label COLUMN"
        )
    began = time.perf_counter()
    seal = sealing.seal(job, who.name, who.key) if job.sealed and who.key else None
    kept, frame = steps.fit(site.graph, job.federation, device=device, progress=progress, seal=seal)
    check_upload(frame, job.federation)
    about = Trained(
        name=who.name,
        graph=site.graph.fingerprint,
        trained=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(time.perf_counter() - began, 3),
        device=device,
        versions=versions(),
    )
    return KeptFile(kept, frame, about, Members.of(site.graph, site.nodes))


def versions() -> dict[str, str]:
    """Of what may change the last digit of a number."""
    return installed(("pace-fgl", "torch", "numpy", "scipy"))


def _content(job: Job, who: Identity, frame: bytes) -> bytes:
    """The bytes of the upload's file."""
    if who.key is None:
        return frame
    return signatures.sign(frame, who.key, kind=signatures.UPLOAD, job=job.digest, name=who.name)


def _write(job: Job, made: KeptFile, keep: Path, upload: Path, sent: bytes) -> None:
    """Keep first, then the upload: killed in between, the upload is made from what was kept."""
    if not atomic.create(keep, made.encode(job), private=True) and not _keeps(keep, job, made):
        raise FileError(
            f"{keep} appeared while this ran, or is a link to nothing: look at it, then run the "
            "command again"
        )
    if not atomic.create(upload, sent) and not regular.same(upload, sent):
        raise FileError(f"{upload} is another file: move it, then run the command again")


def _keeps(keep: Path, job: Job, made: KeptFile) -> bool:
    """Whether the file there is the model that made this upload."""
    return keep.exists() and kept_file.read(keep, job).frame == made.frame


def _receipt(
    job: Job, who: Identity, made: KeptFile, sent: bytes, disclosed: Disclosure
) -> Receipt:
    return Receipt(
        job={"name": job.name, "digest": job.digest},
        name=who.name,
        upload={
            "sha256": hashlib.sha256(sent).hexdigest(),
            "checksum": made.kept.upload.hex(),
            "federation": job.federation.digest.hex(),
        },
        bytes={
            "file": len(sent),
            "frame": disclosed.frame,
            "signature": disclosed.signature,
            "dense_model": disclosed.dense,
            "share_of_dense": disclosed.share,
        },
        tensors=tuple(disclosed.items),
        zero_moments={"count": len(disclosed.zeros), "of": disclosed.columns},
        trained=made.about.trained,
        seconds=made.about.seconds,
        device=made.about.device,
        versions=made.about.versions,
    )
