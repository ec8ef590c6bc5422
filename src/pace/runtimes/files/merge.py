"""The server's step: accept or refuse every upload, decide once, answer from the journal.

`merge_uploads` takes and gives bytes; `merge_files` is the same between files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import normalize

from pace.errors import FileError, LateError, PaceError, SettingError, SignatureError, TooFewError
from pace.io import atomic, untrusted
from pace.io.text import shown
from pace.jobs import signatures
from pace.jobs.admission import admit, exact_size
from pace.jobs.disclosure import influence
from pace.jobs.explain import message_sizes
from pace.jobs.job import SERVER, Job
from pace.jobs.journal import DOWN, UP, Journal, Refusal
from pace.jobs.roll import ROLL_SUFFIX, Attendance
from pace.protocol import steps
from pace.protocol.uploads import Received
from pace.runtimes.files.report import MergeReport, TookPart, write_report

if TYPE_CHECKING:
    from pace.jobs.signatures import Key

Arrival = tuple[str, bytes | PaceError]  # sender, and the upload's bytes or why there are none
Deliver = Callable[[str, bytes, bytes], None]  # participant, its return, its roll


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
            yield sender(path), untrusted.read_exact(path, exact_size(job))
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
        known = content if isinstance(content, bytes) else None
        return book.refuse(name, known, error, settled=False)
    return None


def check_uploads(job: Job, paths: Sequence[Path]) -> tuple[list[Refusal], list[str]]:
    """What a merge would say of each file by itself; the journal is not read, nothing is written.

    Returns:
        What is said of each, with the code `ok` where it would be taken; participants without one.
    """
    names, uploads = [], []
    for name, content in arrivals(upload_files(paths), job):
        try:
            if isinstance(content, PaceError):
                raise content
            names.append(admit(content, name, job).name)
            uploads.append(Refusal("ok", f"the upload of {names[-1]}", name))
        except PaceError as error:
            uploads.append(Refusal(error.code, str(error), name))
    return uploads, job.missing(names)


def sender(path: Path) -> str:
    """Who the file's name says it is from, fit to be printed."""
    return shown(normalize("NFC", path.name.removesuffix(UP)))  # some disks take letters apart


def merge_uploads(
    book: Journal,
    uploads: Iterable[Arrival],
    deliver: Deliver,
    *,
    key: Key | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> MergeReport:
    """Take in the uploads and, if they are enough, give each participant's return to `deliver`.

    Everything is in the journal before it counts: after a crash the same call gives the same bytes.
    """
    refused = []
    for arrival in uploads:
        progress(f"upload {arrival[0]}")
        if (refusal := take(arrival, book)) is not None:
            refused.append(refusal)
    book.settle()  # before anything is decided or said of them
    try:
        decided = book.close()
    except TooFewError as error:
        return merge_report(book, refused, None, waiting=str(error))
    late = f"the job was closed with {len(decided)} uploads, without it"
    refused += [
        Refusal(LateError.code, late, name)
        for name in book.accepted()  # while the decision was being taken
        if name not in decided
    ]
    attendance, largest, received = Attendance.of(book), 0, decided_uploads(book)
    for name in make_returns(book, key, received):
        returned = book.returned(name)
        roll = attendance.roll(name, returned, key)
        largest = max(largest, len(roll))
        deliver(name, returned, roll)
        progress(f"return to {name}")
    return merge_report(book, refused, received, roll=largest)


def merge_files(
    job: Job,
    paths: Sequence[Path],
    *,
    journal: Path,
    out: Path,
    key: Path | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> MergeReport:
    """`merge_uploads` of files; NAME.down, NAME.roll and the report go to the folder `out`."""

    def deliver(name: str, returned: bytes, roll: bytes) -> None:
        for suffix, content in ((DOWN, returned), (ROLL_SUFFIX, roll)):
            path = out / f"{name}{suffix}"
            created = atomic.create(path, content, settled=False)
            if not created and not untrusted.same(path, content):
                raise FileError(f"{path} is another file: move it or choose another --out")

    signer = server_key(job, key)
    uploads = arrivals(upload_files(paths), job)
    with Journal.working(journal, job) as book:
        atomic.sweep(out)
        report = merge_uploads(book, uploads, deliver, key=signer, progress=progress)
        if report.merged:
            write_report(out, report)
    return report


def server_key(job: Job, path: Path | None) -> Key | None:
    """The key that signs returns, which must be the one the job lists."""
    if not job.signed:
        return None
    if path is None:
        raise SettingError("this job's returns are signed: give the server's key with --key")
    key = signatures.load_key(path)
    if signatures.public_key(key) != job.keys[SERVER]:
        raise SignatureError(f"{path} is not the server's key of this job")
    return key


def make_returns(book: Journal, key: Key | None, uploads: Received) -> list[str]:
    """Make the returns that are not there yet; the names of all who get one, in order."""
    job, names = book.job, sorted(book.decision() or {})
    if not all(map(book.has_return, names)):
        for name, frame in zip(names, steps.returns(uploads, job.federation), strict=True):
            if key is not None:
                frame = signatures.sign(
                    frame, key, kind=signatures.RETURN, job=job.digest, name=name
                )
            book.put_return(name, frame)
        book.settle()  # before anybody sees one of them
    return names


def decided_uploads(book: Journal) -> Received:
    """The uploads of the journal's decision."""
    return steps.received(book.frames(), book.job.federation)


def merge_report(
    book: Journal,
    refused: Sequence[Refusal],
    uploads: Received | None,
    *,
    waiting: str | None = None,
    roll: int = 0,
) -> MergeReport:
    """The report; without `uploads`, that of a job which is waiting for some.

    `roll` is the bytes of the largest roll that goes with a return.
    """
    job, decided = book.job, (book.decision() or {}) if uploads else {}
    weighed = influence(uploads, job.federation) if uploads else []
    took_part = [
        TookPart(name, decided[name], weight.share, weight.norm, weight.flags)
        for name, weight in zip(sorted(decided), weighed, strict=True)
    ]
    return MergeReport(
        job={"name": job.name, "digest": job.digest},
        sealed=job.sealed,
        merged=bool(decided),
        waiting=waiting,
        took_part=tuple(took_part),
        here=tuple(book.accepted()),
        missing=tuple(job.missing(decided or book.accepted())),
        refused=tuple(refused),
        refused_ever=tuple(book.refusals()),
        bytes=message_sizes(job),
        roll=roll,
    )
