"""The server's step over files: check every upload, decide once, answer from the journal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pace import atomic, params, protocol, signatures, wire
from pace.admission import admit, check_size, exact_size
from pace.errors import FileError, LateError, PaceError, SettingError, SignatureError, TooFewError
from pace.federation import Message
from pace.files import report
from pace.influence import influence
from pace.job import SERVER, Job
from pace.journal import DOWN, UP, Frames, Journal

if TYPE_CHECKING:
    from pace.signatures import Key


@dataclass(frozen=True)
class Refusal:
    """What was turned away in this run, with the stable code of the reason."""

    sender: str
    code: str
    reason: str


def merge(
    job: Job,
    paths: Sequence[Path],
    *,
    journal: Path,
    out: Path,
    key: Path | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> dict[str, Any]:
    """Take in the uploads and, if they are enough, write everybody's return; the report."""
    signer = server_key(job, key)
    found = listed(paths)
    book = Journal.open(journal, job)
    refused = [each for path in found if (each := take(path, book, progress)) is not None]
    try:
        decided = book.close()
    except TooFewError as error:
        return facts(book, refused, {}, str(error))
    refused += [late(name, len(decided)) for name in book.accepted() if name not in decided]
    for name, returned in answers(book, signer):
        place = out / f"{name}{DOWN}"
        atomic.sweep(place)
        if not atomic.create(place, returned) and place.read_bytes() != returned:
            raise FileError(f"{place} is another file: move it away, or choose another --out")
        progress(f"return to {name}")
    made = facts(book, refused, decided, None)
    pages = {"report.json": json.dumps(made, indent=1) + "\n", "report.md": report.markdown(made)}
    for name, text in pages.items():
        atomic.sweep(out / name)
        atomic.write(out / name, text.encode())
    return made


def listed(paths: Sequence[Path]) -> list[Path]:
    """The upload files: those named, and those in the folders named, in the order of their names."""
    found: set[Path] = set()
    for path in paths:
        if path.is_dir():
            found |= set(path.glob(f"*{UP}"))
        elif path.exists():
            found.add(path)
        else:
            raise FileError(f"{path} is not there: give uploads, or the folder they are in")
    return sorted(found, key=lambda path: (path.name, str(path)))


def take(path: Path, book: Journal, progress: Callable[[str], None]) -> Refusal | None:
    """Accept one file, or write down why not."""
    progress(f"upload {sender(path)}")
    content = None
    try:
        content = read(path, book.job)
        book.accept(admit(content, sender(path), book.job))
    except PaceError as error:
        book.refuse(sender(path), content, error)
        return Refusal(sender(path), error.code, str(error))
    return None


def check(job: Job, paths: Sequence[Path]) -> dict[str, Any]:
    """What `merge` would say of each file, with nothing written."""
    names, uploads = [], []
    for path in listed(paths):
        try:
            names.append(admit(read(path, job), sender(path), job).name)
            uploads.append(Refusal(sender(path), "ok", f"the upload of {names[-1]}"))
        except PaceError as error:
            uploads.append(Refusal(sender(path), error.code, str(error)))
    return {"uploads": [asdict(each) for each in uploads], "missing": job.missing(names)}


def sender(path: Path) -> str:
    """Who the file's name says it is from, fit to be printed."""
    name = path.name.removesuffix(UP)
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def read(path: Path, job: Job) -> bytes:
    """An upload's bytes. Its size is looked at first, and no more than that is read."""
    if not path.is_file():
        raise FileError(f"{path.name} is not a file")
    check_size(path.stat().st_size, job)
    with path.open("rb") as opened:
        return opened.read(exact_size(job) + 1)


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


def answers(book: Journal, key: Key | None) -> Iterator[tuple[str, bytes]]:
    """Everybody's return, in the order of names; one that was made before is given again."""
    frames = book.frames()
    names = [name for name, _ in frames.uploads]
    if any(book.returned(name) is None for name in names):
        for name, frame in zip(names, protocol.merging(frames, book.job.federation), strict=True):
            if book.returned(name) is None:
                book.put_return(name, _signed(frame, key, book.job, name))
    for name in names:
        made = book.returned(name)
        if made is None:
            raise FileError(f"the journal lost the return to {name!r}: run the command again")
        yield name, made


def _signed(frame: bytes, key: Key | None, job: Job, name: str) -> bytes:
    if key is None:
        return frame
    return signatures.sign(frame, key, kind=signatures.RETURN, job=job.digest, name=name)


@dataclass(frozen=True, eq=False)
class Messages:
    """The uploads of a decision, decoded one at a time."""

    frames: Frames

    def __len__(self) -> int:
        return len(self.frames)

    def __iter__(self) -> Iterator[Message]:
        return (wire.decode(frame).message for frame in self.frames)


def facts(
    book: Journal, refused: Sequence[Refusal], decided: dict[str, str], why: str | None
) -> dict[str, Any]:
    """The report as plain data."""
    job = book.job
    overhead = signatures.TRAILER if job.signed else 0
    weighed = influence(Messages(book.frames()), job.federation) if decided else []
    took_part = [
        {"name": name, "sha256": decided[name], **asdict(each)}
        for name, each in zip(sorted(decided), weighed, strict=True)
    ]
    upload, dense = exact_size(job) - overhead, params.size(job.federation.start)
    returned = wire.size(protocol.return_layout(job.federation))
    return {
        "format": "pace-merge-report-1",
        "job": {"name": job.name, "digest": job.digest},
        "merged": bool(decided),
        "waiting": why,
        "took_part": took_part,
        "here": book.accepted(),
        "missing": job.missing(decided or book.accepted()),
        "refused": [asdict(each) for each in refused],
        "refused_ever": book.refusals(),
        "bytes": {
            "upload_frame": upload,
            "return_frame": returned,
            "upload_share_of_dense": upload / dense,
            "return_share_of_dense": returned / dense,
            "signature": overhead,
            "dense_model": dense,
        },
    }
