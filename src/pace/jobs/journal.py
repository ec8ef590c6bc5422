"""The crash-safe folder of one job at the server: what came, what was decided, what was sent.

    job.pace            the job it belongs to
    uploads/NAME.up     accepted; durable before it is acknowledged
    refused/….json      what was turned away, and why
    closed.json         the decision: whose uploads are merged. It is taken once
    roll.json           who was merged, refused and missing when it was taken
    returns/NAME.down   made from the uploads of the decision, and never made again

Every file is complete or not there, and none is ever changed. So after a crash at any moment
the same calls end in the same bytes, and two servers on one journal cannot disagree.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload
from unicodedata import normalize

from pace.errors import (
    FileError,
    LateError,
    OtherJobError,
    PaceError,
    SecondUploadError,
    TooFewError,
)
from pace.io import atomic, untrusted
from pace.jobs import job_file
from pace.jobs.admission import Admitted, frame_of
from pace.jobs.job import Job, is_name

UP, DOWN = ".up", ".down"
NEVER = (
    ". The job is sealed: if one of them never comes, nothing of it can be opened; make a new job, with "
    "a new seed, for the others"
)
FACTS = ("sender", "code", "reason")  # of a refusal, in the order they sort by


@dataclass(frozen=True, eq=False)
class Journal:
    """A journal that is open; `Journal.open` makes or continues one."""

    folder: Path
    job: Job

    @classmethod
    def open(cls, folder: Path, job: Job) -> Journal:
        if not atomic.create(folder / "job.pace", job_file.render(job).encode()):
            found = job_file.read(folder / "job.pace")
            if found.digest != job.digest:
                raise OtherJobError(
                    f"{folder} is the journal of job {found.digest[:16]}, this is "
                    f"{job.digest[:16]}: give each job a journal of its own"
                )
        for part in (folder, *(folder / name for name in ("uploads", "refused", "returns"))):
            part.mkdir(exist_ok=True)
            atomic.sweep(part)
        return cls(folder, job)

    def accept(self, upload: Admitted, *, settled: bool = True) -> bool:
        """Keep an upload; False if it was kept before. Another one under its name is refused.

        It may be acknowledged when this returns; with `settled=False`, after `settle`.
        """
        sha256 = hashlib.sha256(upload.content).hexdigest()
        decided = self.decision()
        if decided is not None and upload.name not in decided:
            raise LateError(
                f"the job was closed with {len(decided)} uploads before {upload.name!r} came: "
                "the returns are made and stay as they are"
            )
        path = self._upload(upload.name)
        new = decided is None and atomic.create(path, upload.content, settled=settled)
        if not new and self.sha256(upload.name) != sha256:
            raise SecondUploadError(
                f"{upload.name!r} sent upload {self.sha256(upload.name)[:16]} before, this is "
                f"{sha256[:16]}: the first one counts"
            )
        return new

    def settle(self) -> None:
        """Make durable the names of all that is here: one step for many files."""
        for part in ("uploads", "refused", "returns"):
            atomic.settle(self.folder / part)

    def refuse(
        self, sender: str, content: bytes | None, error: PaceError, *, settled: bool = True
    ) -> None:
        """Write down what was turned away; the same thing once."""
        sha256 = None if content is None else hashlib.sha256(content).hexdigest()
        facts = {"sender": sender, "sha256": sha256, "code": error.code, "reason": str(error)}
        line = json.dumps(facts, sort_keys=True).encode()
        name = f"{hashlib.sha256(line).hexdigest()[:32]}.json"
        atomic.create(self.folder / "refused" / name, line, settled=settled)

    def refusals(self) -> list[dict[str, Any]]:
        found = [_table(path) for path in (self.folder / "refused").glob("*.json")]
        worded = [each | {key: str(each.get(key)) for key in FACTS} for each in found]
        return sorted(worded, key=lambda each: [each[key] for key in FACTS])

    def accepted(self) -> list[str]:
        """Whose uploads are here, in order."""
        found = (path.name.removesuffix(UP) for path in self.folder.glob(f"uploads/*{UP}"))
        return sorted(normalize("NFC", name) for name in found)  # some disks take letters apart

    def decision(self) -> dict[str, str] | None:
        """Whose uploads are merged, and their SHA-256; None while the job is open."""
        path = self.folder / "closed.json"
        if not path.exists():
            return None
        uploads: dict[str, str] = _table(path).get("uploads", {})
        names = uploads.items() if isinstance(uploads, dict) else [("", 0)]
        if not all(is_name(name) and isinstance(sha256, str) for name, sha256 in names):
            raise FileError(f"{path} is no decision: restore it from a copy")
        return uploads

    def close(self) -> dict[str, str]:
        """Decide that those who are here take part; the first decision stands."""
        decided = self.decision()
        if decided is not None:
            return decided
        present = self.accepted()
        if len(present) < self.job.minimum:
            missing = self.job.missing(present)
            raise TooFewError(
                f"{len(present)} of at least {self.job.minimum} uploads are here"
                + (f", missing are {', '.join(missing)}" if missing else "")
                + ": nothing was merged; run this again when they have come"
                + (NEVER if self.job.sealed else "")
            )
        content = {"job": self.job.digest, "uploads": {name: self.sha256(name) for name in present}}
        atomic.create(self.folder / "closed.json", json.dumps(content, indent=1).encode())
        return self.close()

    def sha256(self, name: str) -> str:
        return hashlib.sha256(self.upload(name)).hexdigest()

    def upload(self, name: str) -> bytes:
        """An accepted upload, as it came."""
        return self._upload(name).read_bytes()

    def frames(self) -> Frames:
        """The uploads that take part, without signatures, each read when it is asked for."""
        return Frames(self, tuple(sorted((self.decision() or {}).items())))

    def has_return(self, name: str) -> bool:
        """Whether the return to a participant has been made."""
        return self._return(name).exists()

    def returned(self, name: str) -> bytes:
        """The return to a participant, once it has been made."""
        try:
            return self._return(name).read_bytes()
        except FileNotFoundError:
            raise FileError(
                f"the journal lost the return to {name!r}: run the command again"
            ) from None

    def put_return(self, name: str, content: bytes) -> None:
        """Keep a return; durable after `settle`."""
        atomic.create(self._return(name), content, settled=False)

    def _upload(self, name: str) -> Path:
        return self.folder / "uploads" / f"{name}{UP}"

    def _return(self, name: str) -> Path:
        return self.folder / "returns" / f"{name}{DOWN}"


def _table(path: Path) -> dict[str, Any]:
    """A JSON object of the journal's own; a disk may have changed it since."""
    try:
        found = untrusted.json(path.read_bytes())
    except ValueError as error:
        raise FileError(f"{path} is damaged ({error}): restore it from a copy") from error
    if not isinstance(found, dict):
        raise FileError(f"{path} is damaged (no table): restore it from a copy")
    return found


@dataclass(frozen=True, eq=False)
class Frames(Sequence[bytes]):
    """Uploads of a decision, in the order of their names, never all in memory."""

    journal: Journal
    uploads: tuple[tuple[str, str], ...]  # name, SHA-256

    def __len__(self) -> int:
        return len(self.uploads)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Frames: ...
    def __getitem__(self, index: int | slice) -> bytes | Frames:
        if isinstance(index, slice):
            return Frames(self.journal, self.uploads[index])
        name, sha256 = self.uploads[index]
        content = self.journal._upload(name).read_bytes()
        if hashlib.sha256(content).hexdigest() != sha256:
            raise FileError(
                f"the journal's upload of {name!r} has changed since the job was closed: restore "
                f"the one with SHA-256 {sha256[:16]}"
            )
        return frame_of(content, self.journal.job)

    def __iter__(self) -> Iterator[bytes]:
        return (self[index] for index in range(len(self)))
