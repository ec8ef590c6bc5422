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
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from pace.errors import FileError, GraphError, ParticipantError, SettingError, SignatureError
from pace.io import atomic, records, untrusted
from pace.jobs import signatures
from pace.jobs.disclosure import Disclosure, disclosure
from pace.jobs.job import Job, check_name
from pace.jobs.journal import UP
from pace.protocol import steps
from pace.registry import installed
from pace.runtimes.files import sealed_jobs
from pace.runtimes.files.kept import KeptModel, Trained, read_kept
from pace.runtimes.files.site import Members, Site

if TYPE_CHECKING:
    from pace.jobs.signatures import Key

Progress = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a site has after its first step."""

    kept: KeptModel
    """Stays at the site."""
    upload: bytes
    """Signed where the job has keys; to be sent once."""
    disclosed: Disclosure
    """What the upload tells."""
    receipt: dict[str, Any]
    """The same as JSON, with digests and how training went, for the site's records."""
    again: bool
    """Whether an earlier run had trained: then nothing was trained now."""


def fit_site(
    job: Job,
    site: Site,
    name: str,
    key: Key | None = None,
    *,
    earlier: KeptModel | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Fitted:
    """Train, unless an `earlier` run did: the upload's bytes, and what they tell.

    Args:
        name: whose upload it is.
        key: proves it, where the job has keys.

    Raises:
        GraphError: the graph has no labels.
        NumberError: training diverged.
    """
    kept = earlier or _train(job, site, name, key, device=device, progress=progress)
    disclosed = upload_disclosure(job, site, kept)
    upload = kept.frame
    if key is not None:
        upload = signatures.sign(upload, key, kind=signatures.UPLOAD, job=job.digest, name=name)
    return Fitted(kept, upload, disclosed, _receipt(job, kept, upload, disclosed), bool(earlier))


def fit_files(
    job: Job,
    site: Site,
    keep: Path,
    upload: Path,
    receipt: Path,
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
        keep: the file for Local, which is never sent.
        upload: the file to send, `NAME.up`.
        receipt: the file for the site's records.
        key: the site's private key, if the job has keys.
        overlapping: agree to what the sums of this and of earlier sealed jobs tell together.
        confirm: is told what will leave the site before anything is written, and may say no.

    Returns:
        What was written; None, and nothing written, where `confirm` said no.
    """
    name, private = identity(job, upload, key)
    if job.sealed and key is not None:
        sealed_jobs.check_overlap(key, job, agreed=overlapping)
    with atomic.held(keep.with_name(f".{keep.name}.lock"), f"another fit is at work on {keep}"):
        earlier = _earlier(job, site, name, keep=keep, upload=upload)
        fitted = fit_site(
            job, site, name, private, earlier=earlier, device=device, progress=progress
        )
        if not confirm(fitted.disclosed):
            return None
        if job.sealed and key is not None:
            sealed_jobs.remember(key, job, fitted.kept.frame)
        if earlier is None and not atomic.create(keep, fitted.kept.encode(job), private=True):
            raise FileError(
                f"{keep} appeared while this ran, or is a link to nothing: look at it, then run the "
                "command again"
            )
        if not atomic.create(upload, fitted.upload) and not untrusted.same(upload, fitted.upload):
            raise FileError(f"{upload} is another file: move it, then run the command again")
        atomic.sweep(receipt)
        atomic.write(receipt, (json.dumps(fitted.receipt, indent=1) + "\n").encode())
    return fitted


def apart(files: Mapping[str, Path | None]) -> None:
    """No two files of a command may be one: a receipt would replace a model, a model be sent."""
    seen: dict[Path, str] = {}
    for option, path in files.items():
        if path is None:
            continue
        if (other := seen.setdefault(path.resolve(), option)) != option:
            raise SettingError(f"{other} and {option} are both {path}: give each a file of its own")


def identity(job: Job, upload: Path, key: Path | None) -> tuple[str, Key | None]:
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
        return name, None
    if key is None:
        raise SettingError("this job's uploads are signed: give your private key with --key")
    private = signatures.load_key(key)
    public = signatures.public_key(private)
    names = [name for name in job.participants if job.keys[name] == public]
    if not names:
        raise SignatureError(
            f"{key} is key {signatures.fingerprint(public).hex()}, which the job does not list"
        )
    return names[0], private


def upload_disclosure(job: Job, site: Site, kept: KeptModel) -> Disclosure:
    """What a kept model's upload tells, as the site was told before it was sent."""
    return disclosure(
        kept.message,
        job.federation,
        signature=signatures.TRAILER if job.signed else 0,
        graph=site.graph,
        features=job.features,
        classes=job.classes,
    )


def versions() -> dict[str, str]:
    """Of what may change the last digit of a number."""
    return installed(("pace-fgl", "torch", "numpy", "scipy"))


def _train(
    job: Job, site: Site, name: str, key: Key | None, *, device: str, progress: Progress | None
) -> KeptModel:
    """Train from W_0. The upload is checked here as the server will check it."""
    if not (site.graph.train | site.graph.val | site.graph.test).any():
        raise GraphError(
            "the graph has no labels, so there is nothing to learn from: import it with --label COLUMN"
        )
    began = time.perf_counter()
    seal = job.seal(name, key) if job.sealed and key else None
    kept, frame = steps.fit(site.graph, job.federation, device=device, progress=progress, seal=seal)
    about = Trained(
        name=name,
        graph=site.graph.fingerprint,
        trained=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(time.perf_counter() - began, 3),
        device=device,
        versions=versions(),
    )
    message = steps.check_upload(frame, job.federation)
    return KeptModel(kept, frame, message, about, Members.of(site.graph, site.nodes))


def _earlier(job: Job, site: Site, name: str, *, keep: Path, upload: Path) -> KeptModel | None:
    """What an earlier run of this job kept."""
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
    if earlier.about.name != name:
        raise FileError(f"{keep} belongs to {earlier.about.name!r}, you are {name!r}")
    if earlier.about.graph != site.graph.fingerprint:
        raise FileError(
            f"{keep} was trained on another graph, and a job takes one upload a client: use the "
            "graph it was trained on, or ask for a new job"
        )
    return earlier


def _receipt(job: Job, kept: KeptModel, upload: bytes, disclosed: Disclosure) -> dict[str, Any]:
    trained = records.plain_record(kept.about)
    del trained["graph"]  # a hash of the data would let readers test a guess of it
    return {
        "format": "pace-receipt-1",
        "job": {"name": job.name, "digest": job.digest},
        **trained,
        "upload": {
            "sha256": hashlib.sha256(upload).hexdigest(),
            "checksum": kept.kept.upload.hex(),
            "federation": job.federation.digest.hex(),
        },
        "bytes": {
            "file": len(upload),
            "frame": disclosed.frame,
            "signature": disclosed.signature,
            "dense_model": disclosed.dense,
            "share_of_dense": disclosed.share,
        },
        "tensors": records.plain_record(disclosed.items),
        "sentences": list(disclosed.sentences),
    }
