"""Editions of a job: who is in, who left and why, who is new; one signed record after the other.

A job's own list is its first edition. The server makes each later one, signs it and sends it with every
roll. Uploads stay bound to the job: a site signs whether its upload serves the edition it was made for
alone, or later ones too, and each roll of a later edition shows these signatures. Returns are signed
for one edition.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from pace.errors import EditionError, SettingError, SignatureError, WithdrawnError
from pace.io import plain_record, records, untrusted
from pace.jobs import signatures
from pace.jobs.signatures import SERVER, TRAILER, UPLOAD, WITHDRAWAL, Key, verify_digest

if TYPE_CHECKING:
    from pace.jobs.job import Job

T = TypeVar("T")
EDITION_SUFFIX, WITHDRAWAL_SUFFIX = ".edition", ".withdrawal"
LARGEST = 2**24  # bytes of a record
AHEAD = 16  # editions beyond the known one that a message may turn out to be of
LONGEST = 200  # characters of a reason


@dataclass(frozen=True)
class Member:
    """A participant of an edition."""

    key: str
    since: int  # the edition it came with, the last time if it had left


@dataclass(frozen=True)
class Withdrawal:
    """What a site signs to leave: of which upload, since which edition it was in, when and why."""

    job: str
    name: str
    upload: str  # SHA-256 of its frame
    since: int
    reason: str
    time: str
    format: str = "pace-withdrawal-1"


@dataclass(frozen=True)
class Evidence:
    """That a site signed an upload, without the upload, as hex."""

    upload: str  # SHA-256 of its frame
    signature: str  # the 72 bytes of its trailer

    @classmethod
    def of(cls, content: bytes) -> Self:
        return cls(signatures.sha256_of(content[:-TRAILER]), content[-TRAILER:].hex())

    def check(self, job: Job, name: str) -> None:
        """Refuse an upload that its site did not sign for this edition; say so if it is of another."""
        others = [f"{UPLOAD} from edition {since} on" for since in range(1, job.number)]
        others += [signed_as(UPLOAD, number) for number in range(1, job.number)]
        digest, trailer = bytes.fromhex(self.upload), bytes.fromhex(self.signature)
        verify = partial(verify_digest, digest, trailer, job.keys[name], job=job.digest, name=name)
        kind = _signed_kind(verify, [*upload_kinds(job, name), *others])
        if kind not in upload_kinds(job, name):
            raise EditionError(
                f"{name!r} signed this as an {kind}, this is edition {job.number}: it can sign the "
                "same upload again with `pace client fit --edition`"
            )


@dataclass(frozen=True)
class Leaver:
    """The tombstone of a site that left; of its upload only the SHA-256 is kept."""

    edition: int  # the first without it
    key: str
    upload: str  # SHA-256 of the frame; empty if there was none
    reason: str
    time: str
    withdrew: bool  # False: the server took it off the list


@dataclass(frozen=True)
class Edition:
    """Who is in from this edition on."""

    job: str
    number: int
    history: tuple[str, ...]  # the job's digest, then those of all editions up to the one before
    minimum: int
    members: Mapping[str, Member]
    left: Mapping[str, Leaver]
    format: str = "pace-edition-1"

    @property
    def digest(self) -> str:
        """Of the record; that of the first edition, which has none, is the job's."""
        return self.job if self.number == 1 else signatures.sha256_of(encode_record(self))

    @property
    def new(self) -> list[str]:
        return [name for name, member in self.members.items() if member.since == self.number]

    @property
    def gone(self) -> dict[str, Leaver]:
        """Who left with this edition."""
        return {name: one for name, one in self.left.items() if one.edition == self.number}


def encode_record(record: object) -> bytes:
    """A record as the bytes that are signed."""
    return json.dumps(plain_record(record), sort_keys=True, separators=(",", ":")).encode()


def current_edition(job: Job) -> Edition:
    """The edition that a signed job is in; the first is the job's own list."""
    if job.edition is not None:
        return job.edition
    members = {name: Member(job.keys[name], 1) for name in job.participants}
    return Edition(job.digest, 1, (), job.minimum, members, left={})


def enrol(job: Job, edition: Edition) -> Job:
    """The job with an edition's members; its content and digest stay the job's."""
    keys = {name: member.key for name, member in edition.members.items()}
    enrolled = replace(
        job,
        participants=tuple(keys),
        keys={**keys, SERVER: job.keys[SERVER]},
        minimum=edition.minimum,
        edition=edition,
    )
    enrolled.__dict__["content"] = job.content
    return enrolled


def check_editions(job: Job) -> None:
    """Refuse a job that cannot have later editions, with the reason."""
    if job.sealed:
        raise SettingError(
            "the job is sealed, and the difference of two sums over nearly the same sites is what one "
            "of them sent: it has no later editions; make a new job with `pace new --from`, and a new "
            "seed"
        )
    if not job.signed:
        raise SettingError(
            "editions and withdrawals are signed, and this job has no keys: make a job with "
            "--participant NAME=NAME.pub and --server-key"
        )


def check_edition(edition: Edition, job: Job) -> Job:
    """The job in an edition, which must be one of its own."""
    check_editions(job)
    current, number = current_edition(job), edition.number
    if edition.job != job.digest or len(edition.history) != number - 1 or number < 2:
        raise EditionError(f"an edition of job {edition.job[:16]}, this is {job.digest[:16]}")
    earlier = [*current.history, current.digest]
    later = [*edition.history, edition.digest]
    if later[: len(earlier)] != earlier[: len(later)]:
        raise EditionError(
            f"the server tells of another edition {len(earlier)} than this site knows: compare both "
            "with the other sites"
        )
    return enrol(job, edition)


def read_edition(path: Path, job: Job) -> Job:
    """The job in the edition of a file that the server signed."""
    check_editions(job)
    frame = signatures.verify(
        _content(path), job.keys[SERVER], kind=signatures.EDITION, job=job.digest, name=""
    )
    return check_edition(_record(Edition, frame, path), job)


def newest_edition(job: Job, folder: Path) -> Job:
    """The job in the newest of its editions in a folder, each of which must follow the one before."""
    enrolled = [read_edition(path, job) for path in files_of_job(job, folder, EDITION_SUFFIX)]
    for later in sorted(enrolled, key=lambda one: one.number):
        job = check_edition(current_edition(later), job)
    return job


def files_of_job(job: Job, folder: Path, suffix: str) -> list[Path]:
    """Editions or withdrawals in a folder, without those that say they are of another job."""
    named = f'"job":"{job.digest}"'.encode()
    paths = sorted(folder.glob(f"*{suffix}"))
    return [path for path in paths if named in _content(path) or b'"job":"' not in _content(path)]


def _content(path: Path) -> bytes:
    with records.reading(path, "damaged", "get it again"):
        return untrusted.read(path, LARGEST)


def _record(kind: type[T], frame: bytes, path: Path) -> T:
    with records.reading(path, "not of this kind", "get it again"):
        return records.read_record(kind, untrusted.json(frame), strict=True)


def signed_as(kind: str, number: int) -> str:
    """What a message of one edition alone is signed as."""
    return kind if number == 1 else f"{kind} of edition {number}"


def upload_kinds(job: Job, name: str) -> tuple[str, str]:
    """What an upload is signed as: for this edition alone, or for this and later ones."""
    since = current_edition(job).members[name].since
    return signed_as(UPLOAD, job.number), f"{UPLOAD} from edition {since} on"


def verify_return(content: bytes, job: Job, name: str, number: int) -> bytes:
    """The frame of a return of this edition; one of another edition is told from a changed one."""
    expected = signed_as(signatures.RETURN, number)
    others = [signed_as(signatures.RETURN, other) for other in range(1, number + AHEAD)]
    verify = partial(signatures.verify, content, job.keys[SERVER], job=job.digest, name=name)
    if (kind := _signed_kind(verify, [expected, *others])) != expected:
        raise EditionError(
            f"the return is of edition {others.index(kind) + 1}, its roll of edition {number}: get both"
        )
    return content[:-TRAILER]


def _signed_kind(verify: Callable[..., object], kinds: Sequence[str]) -> str:
    """The first of these that a message was signed as; if none, the first one's error."""
    refusals = []
    for kind in kinds:
        try:
            verify(kind=kind)
            return kind
        except SignatureError as error:
            refusals.append(error)
    raise refusals[0]


def withdraw(job: Job, name: str, frame: bytes, key: Key, *, reason: str, time: str) -> bytes:
    """A signed withdrawal: good for this upload, and for this time of taking part."""
    check_editions(job)
    if len(reason) > LONGEST or not reason.isprintable():
        raise SettingError(f"the reason is longer than {LONGEST} characters, or not one line")
    since = current_edition(job).members[name].since
    upload = signatures.sha256_of(frame)
    record = encode_record(Withdrawal(job.digest, name, upload, since, reason, time=time))
    return signatures.sign(record, key, kind=WITHDRAWAL, job=job.digest, name=name)


def read_withdrawal(path: Path, job: Job) -> Withdrawal:
    """The withdrawal of a file that a site of this job, or one that was in it, has signed."""
    content = _content(path)
    record = _record(Withdrawal, content[:-TRAILER], path)
    left = job.edition.left if job.edition else {}
    public = {**{name: leaver.key for name, leaver in left.items()}, **job.keys}.get(record.name)
    if public is None or record.name == SERVER or len(record.reason) > LONGEST:
        raise WithdrawnError(f"{path} is of {record.name[:64]!r}, who is not in the job")
    signatures.verify(content, public, kind=WITHDRAWAL, job=job.digest, name=record.name)
    return record


def next_edition(
    job: Job,
    added: Mapping[str, str],
    withdrawals: Mapping[str, Withdrawal],
    removed: Mapping[str, Leaver],
) -> Edition | None:
    """The edition after the job's, with these changes; None if it has made all of them already.

    `added` are public keys by name, `removed` those whom the server takes off the list.
    """
    before, number = current_edition(job), job.number + 1
    members, left, leavers = dict(before.members), dict(before.left), dict(removed)
    for name, leaving in withdrawals.items():
        public = members[name].key if name in members else ""
        sent = (leaving.upload, leaving.reason, leaving.time)
        leavers[name] = Leaver(number, public, *sent, withdrew=True)
        if name in members and members[name].since != leaving.since:
            raise WithdrawnError(
                f"{name!r} is in since edition {members[name].since}, and its withdrawal is from "
                f"before: it has to sign again, with `pace client withdraw --edition`"
            )
    for name, leaver in leavers.items():
        if name in members:
            del members[name]
            left[name] = leaver
        elif name not in left:
            raise SettingError(f"{name!r} is not in edition {job.number}: it cannot leave")
    for name, key in added.items():
        if members.setdefault(name, Member(key, number)).key != key:
            raise SettingError(f"{name!r} is in with another key: remove it first")
        left.pop(name, None)
    if members == before.members:
        return None
    if not members:
        raise SettingError("no site would be left: keep the last one in, or delete the journal")
    everybody = job.minimum == len(job.participants)
    minimum = len(members) if everybody else min(job.minimum, len(members))
    history = (*before.history, before.digest)
    members = dict(sorted(members.items()))
    edition = Edition(job.digest, number, history, minimum, members, left=left)
    enrol(job, edition)  # names and keys are checked as a job's are
    return edition
