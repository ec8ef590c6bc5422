"""A client's first step: train once, keep Local, make the one upload.

`fit_site` gives bytes and objects; `fit_files` is the same between files, for the command and for a
node of a network.
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
from pace.jobs import signatures
from pace.jobs.disclosure import Disclosure, Item, disclosure
from pace.jobs.job import Job, check_name
from pace.jobs.journal import UP
from pace.protocol import steps
from pace.runtimes.files import sealed_jobs
from pace.runtimes.files.kept import KeptModel, Trained, read_kept
from pace.runtimes.files.members import Members
from pace.runtimes.files.site import Site

if TYPE_CHECKING:
    from pace.jobs.signatures import Key

Progress = Callable[[int], None]


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
    sentences: tuple[str, ...]
    """What the server can read out of it."""
    trained: str
    """When, in UTC."""
    seconds: float
    device: str
    versions: dict[str, str]


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a site has after its first step."""

    kept: KeptModel
    """Stays at the site."""
    upload: bytes
    """Signed where the job has keys; to be sent once."""
    disclosed: Disclosure
    """What the upload tells."""
    receipt: Receipt
    again: bool
    """Whether an earlier run had trained: then nothing was trained now."""


@dataclass(frozen=True)
class FitFiles:
    """Where a site's first step leaves its files."""

    keep: Path
    """Local, which is never sent."""
    upload: Path
    """The file to send, `NAME.up`."""
    receipt: Path


def fit_site(
    job: Job,
    site: Site,
    who: Identity,
    *,
    earlier: KeptModel | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Fitted:
    """Train, unless an `earlier` run did: the upload's bytes, and what they tell.

    Raises:
        GraphError: the graph has no labels.
        NumberError: training diverged.
    """
    kept = earlier or _train(job, site, who, device=device, progress=progress)
    disclosed = disclosure(
        kept.message,
        job.federation,
        signature=signatures.TRAILER if job.signed else 0,
        graph=site.graph,
        features=job.features,
        classes=job.classes,
    )
    upload = kept.frame
    if who.key is not None:
        upload = signatures.sign(
            upload, who.key, kind=signatures.UPLOAD, job=job.digest, name=who.name
        )
    receipt = _receipt(job, kept, upload, disclosed)
    return Fitted(kept, upload, disclosed, receipt, again=earlier is not None)


def fit_files(
    job: Job,
    site: Site,
    files: FitFiles,
    *,
    key: Path | None = None,
    device: str = "cpu",
    overlapping: bool = False,
    confirm: Callable[[Disclosure], bool] = lambda disclosed: True,
    progress: Progress | None = None,
) -> Fitted | None:
    """`fit_site`, or what an earlier run kept; writes Local, then the upload, then the receipt.

    Killed in between, the upload is made from what was kept: one job never gets two uploads.

    Args:
        key: the site's private key, if the job has keys.
        overlapping: agree to what the sums of this and of earlier sealed jobs tell together.
        confirm: is told what will leave the site before anything is written, and may say no.

    Returns:
        What was written; None, and nothing written, where `confirm` said no.
    """
    who = identity(job, files.upload, key)
    if job.sealed and key is not None:
        sealed_jobs.check_overlap(key, job, agreed=overlapping)
    busy = f"another fit is at work on {files.keep}"
    with lock.held(files.keep.with_name(f".{files.keep.name}.lock"), busy):
        earlier = _earlier(job, site, who, files)
        fitted = fit_site(job, site, who, earlier=earlier, device=device, progress=progress)
        if not confirm(fitted.disclosed):
            return None
        if job.sealed and key is not None:
            sealed_jobs.remember(key, job, fitted.kept.frame)
        _write(job, fitted, files)
    return fitted


def apart(files: Mapping[str, Path | None]) -> None:
    """No two files of a command may be one: a receipt would replace a model, a model be sent."""
    seen: dict[Path, str] = {}
    for option, path in files.items():
        if path is None:
            continue
        if (other := seen.setdefault(path.resolve(), option)) != option:
            raise SettingError(f"{other} and {option} are both {path}: give each a file of its own")


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
    private = signatures.load_key(key)
    public = signatures.public_key(private)
    names = [name for name in job.participants if job.keys[name] == public]
    if not names:
        raise SignatureError(
            f"{key} is key {signatures.fingerprint(public).hex()}, which the job does not list"
        )
    return Identity(names[0], private)


def versions() -> dict[str, str]:
    """Of what may change the last digit of a number."""
    return installed(("pace-fgl", "torch", "numpy", "scipy"))


def _train(
    job: Job, site: Site, who: Identity, *, device: str, progress: Progress | None
) -> KeptModel:
    """Train from W_0. The upload is checked here as the server will check it."""
    if not (site.graph.train | site.graph.val | site.graph.test).any():
        raise GraphError(
            "the graph has no labels, so there is nothing to learn from: import it with --label COLUMN"
        )
    began = time.perf_counter()
    seal = job.seal(who.name, who.key) if job.sealed and who.key else None
    kept, frame = steps.fit(site.graph, job.federation, device=device, progress=progress, seal=seal)
    about = Trained(
        name=who.name,
        graph=site.graph.fingerprint,
        trained=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(time.perf_counter() - began, 3),
        device=device,
        versions=versions(),
    )
    message = steps.check_upload(frame, job.federation)
    return KeptModel(kept, frame, message, about, Members.of(site.graph, site.nodes))


def _earlier(job: Job, site: Site, who: Identity, files: FitFiles) -> KeptModel | None:
    """What an earlier run of this job kept."""
    keep, upload = files.keep, files.upload
    atomic.sweep(keep)
    atomic.sweep(upload)
    if not keep.exists():
        if upload.exists():
            raise FileError(
                f"{upload} exists, but {keep}, the model that made it, was not found: restore {keep} "
                f"or, if the upload was never sent, remove it"
            )
        return None
    earlier = read_kept(keep, job)
    if earlier.about.name != who.name:
        raise FileError(f"{keep} belongs to {earlier.about.name!r}, you are {who.name!r}")
    if earlier.about.graph != site.graph.fingerprint:
        raise FileError(
            f"{keep} was trained on another graph, and a job takes one upload a client: use the "
            "graph it was trained on, or ask for a new job"
        )
    return earlier


def _write(job: Job, fitted: Fitted, files: FitFiles) -> None:
    if not fitted.again and not atomic.create(files.keep, fitted.kept.encode(job), private=True):
        raise FileError(
            f"{files.keep} appeared while this ran, or is a link to nothing: look at it, then run "
            "the command again"
        )
    if not atomic.create(files.upload, fitted.upload) and not regular.same(
        files.upload, fitted.upload
    ):
        raise FileError(f"{files.upload} is another file: move it, then run the command again")
    atomic.sweep(files.receipt)
    receipt = json.dumps(records.plain_record(fitted.receipt), indent=1) + "\n"
    atomic.write(files.receipt, receipt.encode())


def _receipt(job: Job, kept: KeptModel, upload: bytes, disclosed: Disclosure) -> Receipt:
    return Receipt(
        job={"name": job.name, "digest": job.digest},
        name=kept.about.name,
        upload={
            "sha256": hashlib.sha256(upload).hexdigest(),
            "checksum": kept.kept.upload.hex(),
            "federation": job.federation.digest.hex(),
        },
        bytes={
            "file": len(upload),
            "frame": disclosed.frame,
            "signature": disclosed.signature,
            "dense_model": disclosed.dense,
            "share_of_dense": disclosed.share,
        },
        tensors=tuple(disclosed.items),
        sentences=disclosed.sentences,
        trained=kept.about.trained,
        seconds=kept.about.seconds,
        device=kept.about.device,
        versions=kept.about.versions,
    )
