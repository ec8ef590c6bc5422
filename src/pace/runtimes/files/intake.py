"""What the server takes in: files from anybody, each accepted or refused with a reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unicodedata import normalize

from pace.errors import FileError, PaceError
from pace.io import regular
from pace.io.text import shown
from pace.jobs.admission import admit, exact_size
from pace.jobs.job import Job
from pace.jobs.journal import UP, Journal

Arrival = tuple[str, bytes | PaceError]  # sender, and the upload's bytes or why there are none


@dataclass(frozen=True)
class Refusal:
    """What was turned away in this run, with the stable code of the reason."""

    sender: str
    code: str
    reason: str


@dataclass(frozen=True)
class Checked:
    """What a job would say of each upload by itself."""

    uploads: tuple[Refusal, ...]
    """With the code `ok` where it would be taken."""
    missing: tuple[str, ...]
    """Participants of whom there is no upload that would be taken."""


def upload_files(paths: Sequence[Path]) -> list[Path]:
    """The upload files: those named, and those in the folders named, in the order of their names."""
    files: set[Path] = set()
    for path in paths:
        if path.is_dir():
            files |= set(path.glob(f"*{UP}"))
        elif path.exists():
            files.add(path)
        else:
            raise FileError(f"{path} not found: give uploads, or the folder they are in")
    return sorted(files, key=lambda path: (path.name, str(path)))


def arrivals(paths: Sequence[Path], job: Job) -> Iterator[Arrival]:
    """The files one after the other; one that cannot be read must not stop the others."""
    for path in paths:
        try:
            yield sender(path), regular.read_exact(path, exact_size(job))
        except PaceError as error:
            yield sender(path), error


def take(arrival: Arrival, book: Journal) -> Refusal | None:
    """Accept one upload, or write down why not; durable after the journal's `settle`."""
    name, content = arrival
    try:
        if isinstance(content, PaceError):
            raise content
        book.accept(admit(content, name, book.job), settled=False)
    except PaceError as error:
        book.refuse(name, content if isinstance(content, bytes) else None, error, settled=False)
        return Refusal(name, error.code, str(error))
    return None


def check_uploads(job: Job, paths: Sequence[Path]) -> Checked:
    """What a merge would say of each file by itself; the journal is not read, nothing is written."""
    names, uploads = [], []
    for name, content in arrivals(upload_files(paths), job):
        try:
            if isinstance(content, PaceError):
                raise content
            names.append(admit(content, name, job).name)
            uploads.append(Refusal(name, "ok", f"the upload of {names[-1]}"))
        except PaceError as error:
            uploads.append(Refusal(name, error.code, str(error)))
    return Checked(tuple(uploads), tuple(job.missing(names)))


def sender(path: Path) -> str:
    """Who the file's name says it is from, fit to be printed."""
    return shown(normalize("NFC", path.name.removesuffix(UP)))  # some disks take letters apart
