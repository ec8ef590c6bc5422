"""The crash-safe folder of one job at the server: what came, what was decided, what was sent.

    job.pace            the job it belongs to
    uploads/NAME.up     accepted; durable before it is acknowledged
    refused/….json      what was turned away, and why
    closed.json         the decision: who was merged, refused and missing. It is taken once
    brought.json        what each upload brought, where the method lets that be seen
    returns/NAME.down   made from the uploads of the decision, and never made again
    damaged/…           uploads that changed on the disk after they were accepted
    editions/N/         of each later edition: edition (signed), closed.json, returns/, and in unused/
                        the uploads that may not serve it
    .lock               there while a server is at work

The newest edition is the one at work. What is deleted are the uploads of those who left, and all
returns that they are a part of; an edition's record says who they were.

Every file is complete or absent, and none is ever changed. So after a crash at any moment
the same calls end in the same bytes. `Journal.working` lets one server in at a time; even without
it, two servers on one journal cannot disagree. Disks rot: what is merged is admitted again when the
decision is taken and compared with it whenever it is read.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unicodedata import normalize

from pace import errors
from pace.errors import FileError, PaceError
from pace.io import atomic, optional, plain_record, records, untrusted
from pace.jobs import signatures
from pace.jobs.admission import Admitted, admit, exact_size, frame_of
from pace.jobs.disclosure import Brought
from pace.jobs.editions import Edition, Evidence, encode_record, read_edition
from pace.jobs.job import Job, is_name, read_job, render_job
from pace.jobs.signatures import Key, sha256_of

UP, DOWN = ".up", ".down"
BROUGHT = "brought.json"
UNOPENED = "; it is sealed: if one never comes, nothing of it can be opened: make a new job"
LARGEST = 2**28  # bytes of a file of the journal's own


@dataclass(frozen=True)
class Refusal:
    """Something that was turned away."""

    code: str  # of the reason; it is stable
    reason: str
    sender: str
    sha256: str | None = optional(None)  # of the content; None where it could not be read


@dataclass(frozen=True)
class Decision:
    """closed.json: who was in when the job was closed, written down before anybody is told."""

    job: str
    uploads: dict[str, str]  # that are merged: name -> SHA-256
    refused: dict[str, str]  # participants of whom only others came, and the last reason's code
    missing: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Journal:
    """A journal that is open; `Journal.open` makes or continues one."""

    folder: Path
    job: Job
    admitted: dict[str, str] = field(default_factory=dict)  # by this process: name -> SHA-256

    @classmethod
    def open(cls, folder: Path, job: Job) -> "Journal":
        if not atomic.create(folder / "job.pace", render_job(job).encode()):
            earlier = read_job(folder / "job.pace")
            if earlier.digest != job.digest:
                raise errors.OtherJobError(
                    f"{folder} is the journal of job {earlier.digest[:16]}, this is "
                    f"{job.digest[:16]}: give each job its own journal"
                )
        job = newest_job(folder, job)
        book = cls(folder, job)
        for part in (folder, *book._parts(), book.room):
            part.mkdir(exist_ok=True, parents=True)
            atomic.sweep(part)
        if job.edition is not None:
            book._apply(job.edition)
        return book

    @property
    def room(self) -> Path:
        return _room(self.folder, self.job.number)

    def _parts(self) -> list[Path]:
        return [self.folder / "uploads", self.folder / "refused", self.room / "returns"]

    def begin_edition(self, edition: Edition, key: Key) -> "Journal":
        """Write an edition's record, which decides it, and go on with it."""
        content = signatures.sign(
            encode_record(edition), key, kind=signatures.EDITION, job=self.job.digest, name=""
        )
        atomic.create(_room(self.folder, edition.number) / "edition", content)
        return Journal.open(self.folder, self.job)

    def _apply(self, edition: Edition) -> None:
        """Delete what is of those who left, put aside what may not serve; again if it was killed."""
        for name in self.accepted():
            path = self._upload(name)
            if name not in edition.members:
                path.unlink(missing_ok=True)
                continue
            try:
                Evidence.of(self.stored(name)).check(self.job, name)
            except errors.EditionError:
                unused = self.room / "unused"
                unused.mkdir(exist_ok=True)
                os.replace(path, unused / path.name)
            except PaceError:
                pass  # damaged: `close` sets it aside and says so
        if edition.gone:
            for room in (_room(self.folder, number) for number in range(1, edition.number)):
                aside = (room / "unused" / f"{name}{UP}" for name in edition.gone)
                for path in (room / BROUGHT, *room.glob(f"returns/*{DOWN}"), *aside):
                    path.unlink(missing_ok=True)
        self.settle()

    @classmethod
    @contextmanager
    def working(cls, folder: Path, job: Job, patience: float = 0.0) -> "Iterator[Journal]":
        """The same for one server at a time; it waits `patience` seconds for another to end."""
        busy = f"another server is at work on {folder}"
        with atomic.held(folder / ".lock", busy, patience):
            yield cls.open(folder, job)

    def accept(self, upload: Admitted, *, settled: bool = True) -> bool:
        """Keep an upload; False if it was kept before; another one under its name is refused.

        It may be acknowledged when this returns; with `settled=False`, after `settle`.
        """
        sha256 = sha256_of(upload.content)
        decided = self.decision()
        if decided is not None and upload.name not in decided:
            raise errors.LateError(
                f"the job was closed with {len(decided)} uploads before {upload.name!r} came: "
                "the returns are made and stay as they are"
            )
        self.admitted[upload.name] = sha256
        first = sha256 if decided is None else decided[upload.name]
        path = self._upload(upload.name)
        if first == sha256 and atomic.create(path, upload.content, settled=settled):
            return True
        if first == sha256 and (stored := self.stored(upload.name)) != upload.content:
            if decided is not None or not self._admissible(upload.name, stored):
                self._set_aside(upload.name, stored)
                return atomic.create(path, upload.content, settled=settled)
            first = sha256_of(stored)
        if first != sha256:
            raise errors.SecondUploadError(
                f"{upload.name!r} sent upload {first[:16]} before, this is {sha256[:16]}: the first "
                "one counts"
            )
        return False

    def settle(self) -> None:
        """Make durable the names of all that is here: one step for many files."""
        for part in self._parts():
            atomic.settle(part)

    def refuse(
        self, sender: str, content: bytes | None, error: PaceError, *, settled: bool = True
    ) -> Refusal:
        """Write down what was turned away; the same thing once."""
        sha256 = None if content is None else sha256_of(content)
        refusal = Refusal(error.code, str(error), sender, sha256)
        line = json.dumps(plain_record(refusal), sort_keys=True).encode()
        name = f"{sha256_of(line)[:32]}.json"
        atomic.create(self.folder / "refused" / name, line, settled=settled)
        return refusal

    def refusals(self) -> list[Refusal]:
        """Everything that was ever turned away, by sender; a damaged record stops no other."""
        refusals = []
        for path in (self.folder / "refused").glob("*.json"):
            try:
                refusals.append(records.load_record(Refusal, path, LARGEST))
            except FileError as error:
                refusals.append(Refusal(error.code, str(error), path.stem))
        return sorted(refusals, key=lambda past: (past.sender, past.code, past.reason))

    def accepted(self) -> list[str]:
        """Whose uploads are here, in order."""
        names = (path.name.removesuffix(UP) for path in self.folder.glob(f"uploads/*{UP}"))
        return sorted(normalize("NFC", name) for name in names)  # some disks take letters apart

    def decision(self) -> dict[str, str] | None:
        """Whose uploads are merged, and their SHA-256; None while the job is open."""
        return None if (decided := self.decided()) is None else decided.uploads

    def decided(self, number: int | None = None) -> Decision | None:
        """The decision of an edition, by default this one; None while the job is open."""
        path = _room(self.folder, number or self.job.number) / "closed.json"
        if not path.exists():
            return None
        decided = records.load_record(Decision, path, LARGEST)
        if not all(map(is_name, decided.uploads)):
            raise FileError(f"{path} is damaged (a name): restore it from a backup")
        return decided

    def close(self) -> dict[str, str]:
        """Decide that those who are here take part; the first decision is final."""
        if (decided := self.decision()) is not None:
            return decided
        present = self.accepted()
        if len(present) < self.job.minimum:
            missing = self.job.missing(present)
            raise errors.TooFewError(
                f"{len(present)} of at least {self.job.minimum} uploads are here"
                + (f", missing are {', '.join(missing)}" if missing else "")
                + ": nothing was merged; run this again when they have come"
                + (UNOPENED if self.job.sealed else "")
            )
        sound, damaged = {}, []
        for name in present:  # those that no longer may count are set aside
            content = self.stored(name)
            if self._admissible(name, content):
                sound[name] = sha256_of(content)
            else:
                self._set_aside(name, content)
                damaged.append(name)
        if damaged:
            raise errors.SetAsideError(
                f"of {', '.join(damaged)} the accepted upload was damaged on this disk, and it was "
                f"set aside in {self.folder / 'damaged'}: nothing was merged; put the good file back "
                "into the inbox, or ask them to send it again, and run this again (without it, those "
                "who are here are merged)"
            )
        codes = {past.sender: past.code for past in self.refusals()}
        absent = self.job.missing(sound)
        refused = {name: codes[name] for name in absent if name in codes}
        never = tuple(name for name in absent if name not in codes)
        record = plain_record(Decision(self.job.digest, sound, refused, never))
        atomic.create(self.room / "closed.json", json.dumps(record, indent=1).encode())
        return self.close()

    def _admissible(self, name: str, content: bytes) -> bool:
        """Whether it may count; bytes that this process has admitted are not decoded again."""
        if self.admitted.get(name) == sha256_of(content):
            return True
        try:
            return admit(content, name, self.job).name == name
        except PaceError:
            return False

    def stored(self, name: str) -> bytes:
        """An upload's bytes as they are on the disk now; longer than any upload, if it grew."""
        return untrusted.read_head(self._upload(name), exact_size(self.job) + 1)

    def _set_aside(self, name: str, content: bytes) -> None:
        """Move a damaged upload out of the way; nothing is ever deleted."""
        aside = self.folder / "damaged" / f"{name}.{sha256_of(content)[:16]}{UP}"
        aside.parent.mkdir(exist_ok=True)
        os.replace(self._upload(name), aside)
        atomic.settle(aside.parent)
        atomic.settle(self.folder / "uploads")

    def frames(self) -> "Frames":
        """The uploads that take part, without signatures, each read when it is asked for."""
        return Frames(self, tuple(sorted((self.decision() or {}).items())))

    def has_return(self, name: str) -> bool:
        return self._return(name).exists()

    def returned(self, name: str) -> bytes:
        """The return to a participant, once it has been made."""
        try:
            return untrusted.read(self._return(name), LARGEST)
        except FileNotFoundError:
            raise FileError(f"the journal lost the return to {name!r}: run this again") from None

    def brought(self) -> Brought | None:
        """What each site of this edition brought, where that was computed."""
        path = self.room / BROUGHT
        return records.load_record(Brought, path, LARGEST) if path.exists() else None

    def put_brought(self, brought: Brought) -> None:
        """Keep it: what was told once is told to everybody."""
        atomic.create(self.room / BROUGHT, json.dumps(plain_record(brought)).encode())

    def put_return(self, name: str, content: bytes) -> None:
        """Keep a return; durable after `settle`."""
        atomic.create(self._return(name), content, settled=False)

    def _upload(self, name: str) -> Path:
        return self.folder / "uploads" / f"{name}{UP}"

    def _return(self, name: str) -> Path:
        return self.room / "returns" / f"{name}{DOWN}"


def _room(folder: Path, number: int) -> Path:
    """The folder of what an edition decided: the first one's is the journal's own."""
    return folder if number == 1 else folder / "editions" / str(number)


def newest_job(folder: Path, job: Job) -> Job:
    """The job in its newest edition here."""
    newest = job
    while (path := _room(folder, newest.number + 1) / "edition").exists():
        newest = read_edition(path, newest)
    return newest


@dataclass(frozen=True, eq=False)
class Frames(Sequence[bytes]):
    """Uploads of a decision, in the order of their names, never all in memory."""

    journal: Journal
    uploads: tuple[tuple[str, str], ...]  # name, SHA-256

    def __len__(self) -> int:
        return len(self.uploads)

    def __getitem__(self, index: int) -> bytes:  # type: ignore[override]  # they are not sliced
        name, sha256 = self.uploads[index]
        try:
            content = self.journal.stored(name)
        except FileNotFoundError:
            content = b""
        if sha256_of(content) != sha256:
            raise FileError(
                f"the journal's upload of {name!r} has changed since the job was closed: put the one "
                f"with SHA-256 {sha256[:16]} back into the inbox, and run this again"
            )
        return frame_of(content, self.journal.job)
