"""What the server takes in: files from anybody, each accepted or refused with a reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from unicodedata import normalize

from pace.errors import FileError, PaceError
from pace.io import regular
from pace.io.text import shown
from pace.jobs.admission import admit, check_size, exact_size
from pace.jobs.job import Job
from pace.jobs.journal import UP, Journal


@dataclass(frozen=True)
class Refusal:
    """What was turned away in this run, with the stable code of the reason."""

    sender: str
    code: str
    reason: str


def listed(paths: Sequence[Path]) -> list[Path]:
    """The upload files: those named, and those in the folders named, in the order of their names."""
    found: set[Path] = set()
    for path in paths:
        if path.is_dir():
            found |= set(path.glob(f"*{UP}"))
        elif path.exists():
            found.add(path)
        else:
            raise FileError(f"{path} not found: give uploads, or the folder they are in")
    return sorted(found, key=lambda path: (path.name, str(path)))


def take(path: Path, book: Journal, progress: Callable[[str], None]) -> Refusal | None:
    """Accept one file, or write down why not; durable after the journal's `settle`."""
    progress(f"upload {sender(path)}")
    content = None
    try:
        content = read(path, book.job)
        book.accept(admit(content, sender(path), book.job), settled=False)
    except PaceError as error:
        book.refuse(sender(path), content, error, settled=False)
        return Refusal(sender(path), error.code, str(error))
    return None


@dataclass(frozen=True)
class Checked:
    """What a job would say of each upload by itself."""

    uploads: tuple[Refusal, ...]
    """With the code `ok` where it would be taken."""
    missing: tuple[str, ...]
    """Participants of whom there is no upload that would be taken."""


def check(job: Job, paths: Sequence[Path]) -> Checked:
    """What `merge` would say of each file by itself, with no look at the journal and nothing written."""
    names, uploads = [], []
    for path in listed(paths):
        try:
            names.append(admit(read(path, job), sender(path), job).name)
            uploads.append(Refusal(sender(path), "ok", f"the upload of {names[-1]}"))
        except PaceError as error:
            uploads.append(Refusal(sender(path), error.code, str(error)))
    return Checked(tuple(uploads), tuple(job.missing(names)))


def sender(path: Path) -> str:
    """Who the file's name says it is from, fit to be printed."""
    return shown(normalize("NFC", path.name.removesuffix(UP)))  # some disks take letters apart


def read(path: Path, job: Job) -> bytes:
    """An upload's bytes. Its size is looked at first, and no more than that is read."""
    try:
        with regular.open_regular(path) as opened:
            check_size(regular.size_of(opened), job)
            return opened.read(exact_size(job) + 1)
    except OSError as error:  # somebody else's file must not keep the others from being served
        raise FileError(f"{shown(path.name)} cannot be read: {error.strerror}") from error
