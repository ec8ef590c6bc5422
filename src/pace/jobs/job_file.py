"""A job as a file: TOML that a person can review, with a last line that tells of any change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pace.errors import FileError, NotAllowedError, OtherJobError, SettingError
from pace.io import atomic, records
from pace.io.plugins import check_code, is_code_name
from pace.io.records import load_toml, read_record
from pace.jobs.job import FORMAT, Job, JobContent, digest
from pace.models import make
from pace.tables.codebook import parse_codebook

JOB_SUFFIX = ".pace"
LARGEST = 2**24  # bytes; half a million feature names fit
HEAD = """\
# What everybody agrees on before anything is sent. Every site and the server need this very file;
# all messages carry its digest. Do not edit it, not even one number: that is noticed. Make
# another with `pace new`; `pace show` explains this one.
"""
COMMENTS = {
    "nonce": "drawn at random: no other job takes this one's messages",
    "numbers": 'on the wire: "float32" sends them exactly, "float16" and "int8" round them',
    "model.hidden": "widths of the hidden layers",
    "model.seed": "of the common start W_0",
    "model.start": "the first digits of the SHA-256 of W_0",
    "training.epochs": "full-batch steps",
    "training.rate": "the learning rate",
    "training.decay": "weight decay",
    "model.code": "the SHA-256 of the files of its package",
    "method.code": "the SHA-256 of the files of its package",
    "method.rank": 'of the factors that are sent, or "dense"',
    "participants.minimum": "uploads without which nothing is merged",
    "participants.names": "empty: anybody",
}
SIGNED_OFF = "signed-off"


def write_job(path: Path, job: Job) -> None:
    """A new file; one that is there is never replaced, since messages may depend on it."""
    content = render_job(job).encode()
    if len(content) > LARGEST:
        raise SettingError(
            f"the job would have {len(content):,} bytes, expected at most {LARGEST:,}: make it "
            "without the names of features"
        )
    if not atomic.create(path, content):
        raise FileError(f"{path} already exists: choose another name or move it")


def render_job(job: Job) -> str:
    content = {**job.content, SIGNED_OFF: {"sha256": job.digest}}
    return f"{HEAD}\n{records.dump_toml(content, COMMENTS)}"


def read_job(path: Path) -> Job:
    """The job of a file that is as it was made; otherwise both digests, or both values, are shown.

    Raises:
        FileError: it is not a job.
        OtherJobError: it was changed after it was made.
        SettingError: it has a setting that cannot be used here.
        NotAllowedError: it names code that is not allowed here.
    """
    content = load_toml(path, LARGEST, "make a job with `pace new`")
    if content.get("format") != FORMAT:
        raise FileError(
            f"{path} has format {content.get('format')!r}, this software reads {FORMAT!r}: "
            "make a job with `pace new`"
        )
    signed = content.pop(SIGNED_OFF, None)
    says = signed.get("sha256") if isinstance(signed, dict) else None
    if digest(content) != says:
        raise OtherJobError(
            f"{path} was changed after it was made: its settings have digest "
            f"{digest(content)[:16]}, its last line says {str(says)[:16]}; get the original again"
        )
    try:
        job = _job(content)
        ours = job.content
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RuntimeError,
        OverflowError,
    ) as error:
        kind = NotAllowedError if isinstance(error, NotAllowedError) else SettingError
        raise kind(f"{path} cannot be used: {error}") from error
    if difference := _first_difference(content, ours):
        key, theirs, here = difference
        raise SettingError(
            f"{path} was made by a software that does otherwise: its {key} is {theirs!r}, here it "
            f"is {here!r}; use the versions it was made with"
        )
    return job


def _job(content: Mapping[str, Any]) -> Job:
    sections = {key: value for key, value in content.items() if key != "format"}
    found = read_record(JobContent, sections, "the job", strict=True)
    model, training = found.model, found.training
    for name, kind, code in (
        (found.method.name, "method", found.method.code),
        (model.kind, "model", model.code),
    ):
        if is_code_name(name):
            check_code(name, kind, code)
    widths = (model.features, *model.hidden, model.classes)
    return Job(
        found.name,
        make(model.kind, widths, **model.settings),
        found.method.name,
        found.method.settings,
        model.seed,
        training["epochs"],
        found.participants.names,
        found.participants.minimum,
        found.keys,
        found.names.classes,
        found.names.features,
        found.nonce,
        found.numbers,
        parse_codebook(found.codebook) if found.codebook else None,
        found.sealing,
        training.get("rate"),
        training.get("decay"),
    )


def _first_difference(
    theirs: Mapping[str, Any], ours: Mapping[str, Any], where: str = ""
) -> tuple[str, Any, Any] | None:
    """The first key whose values differ, or that only one has."""
    for key in {**theirs, **ours}:
        their, our = theirs.get(key), ours.get(key)
        if isinstance(our, Mapping) and isinstance(their, Mapping):
            if inner := _first_difference(their, our, f"{where}{key}."):
                return inner
        elif their != our:
            return f"{where}{key}", their, our
    return None
