"""The server's step over files: check every upload, decide once, answer from the journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pace import params
from pace.errors import FileError, LateError, SettingError, SignatureError, TooFewError
from pace.io import atomic, regular
from pace.jobs import roll as rolls
from pace.jobs import signatures
from pace.jobs.admission import exact_size
from pace.jobs.influence import influence
from pace.jobs.job import SERVER, Job
from pace.jobs.journal import DOWN, Journal
from pace.protocol import steps, wire
from pace.protocol.uploads import Received
from pace.runtimes.files import report
from pace.runtimes.files.intake import Refusal as Refusal
from pace.runtimes.files.intake import listed, take
from pace.runtimes.files.report import JobName, MergeReport, MessageBytes, TookPart

if TYPE_CHECKING:
    from pace.jobs.signatures import Key


def merge(
    job: Job,
    paths: Sequence[Path],
    *,
    journal: Path,
    out: Path,
    key: Path | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> MergeReport:
    """Take in the uploads and, if they are enough, write everybody's return; the report."""
    signer = server_key(job, key)
    found = listed(paths)
    with Journal.working(journal, job) as book:
        return _merge(book, found, out, signer, progress)


def _merge(
    book: Journal,
    paths: Sequence[Path],
    out: Path,
    key: Key | None,
    progress: Callable[[str], None],
) -> MergeReport:
    refused = [each for path in paths if (each := take(path, book, progress)) is not None]
    book.settle()  # before anything is decided or said of them
    try:
        decided = book.close()
    except TooFewError as error:
        return facts(book, refused, None, waiting=str(error))
    refused += [late(name, len(decided)) for name in book.accepted() if name not in decided]
    atomic.sweep(out)
    attendance, roll, uploads = rolls.Attendance.of(book), 0, received(book)
    for name in make_returns(book, key, uploads):
        returned = book.returned(name)
        called = attendance.roll(name, returned, key)
        roll = max(roll, len(called))
        for suffix, content in ((DOWN, returned), (rolls.SUFFIX, called)):
            place = out / f"{name}{suffix}"
            if not atomic.create(place, content, settled=False) and not regular.same(
                place, content
            ):
                raise FileError(f"{place} is another file: move it or choose another --out")
        progress(f"return to {name}")
    made = facts(book, refused, uploads, roll=roll)
    report.write(out, made)
    return made


def late(name: str, count: int) -> Refusal:
    """An upload that reached the journal while the decision was being taken."""
    return Refusal(name, LateError.code, f"the job was closed with {count} uploads, without it")


def server_key(job: Job, key: Path | None) -> Key | None:
    """The key that signs returns, which must be the one the job lists."""
    if not job.signed:
        return None
    if key is None:
        raise SettingError("this job's returns are signed: give the server's key with --key")
    loaded = signatures.load(key)
    if signatures.public_of(loaded) != job.keys[SERVER]:
        raise SignatureError(f"{key} is not the server's key of this job")
    return loaded


def make_returns(book: Journal, key: Key | None, uploads: Received) -> list[str]:
    """Make the returns that are not there yet; the names of all who get one, in order."""
    names = sorted(book.decision() or {})
    if not all(map(book.has_return, names)):
        for name, frame in zip(names, steps.returns(uploads, book.job.federation), strict=True):
            book.put_return(name, _signed(frame, key, book.job, name))
        book.settle()  # before anybody sees one of them
    return names


def _signed(frame: bytes, key: Key | None, job: Job, name: str) -> bytes:
    if key is None:
        return frame
    return signatures.sign(frame, key, kind=signatures.RETURN, job=job.digest, name=name)


def received(book: Journal) -> Received:
    """The uploads of the journal's decision."""
    return steps.received(book.frames(), book.job.federation)


def facts(
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
    overhead = signatures.TRAILER if job.signed else 0
    weighed = influence(uploads, job.federation) if uploads else []
    took_part = [
        TookPart(name, decided[name], weight.share, weight.norm, weight.flags)
        for name, weight in zip(sorted(decided), weighed, strict=True)
    ]
    upload, dense = exact_size(job) - overhead, params.size(job.federation.start)
    returned = wire.size(steps.return_layout(job.federation))
    return MergeReport(
        job=JobName(job.name, job.digest),
        sealed=job.sealed,
        merged=bool(decided),
        waiting=waiting,
        took_part=tuple(took_part),
        here=tuple(book.accepted()),
        missing=tuple(job.missing(decided or book.accepted())),
        refused=tuple(refused),
        refused_ever=tuple(book.refusals()),
        bytes=MessageBytes(
            upload_frame=upload,
            return_frame=returned,
            upload_share_of_dense=upload / dense,
            return_share_of_dense=returned / dense,
            signature=overhead,
            roll=roll,
            dense_model=dense,
        ),
    )
