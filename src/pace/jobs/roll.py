"""The roll of who was in: with every return goes a list of whose uploads were merged, refused, missing.

It is a separate file, NAME.roll, so that frames keep their sizes: JSON that names the job, the
receiver and, by SHA-256, the receiver's upload and return; where the job has keys, with the server's
signature under it. It is the server's word: a signature shows who gave it, not that it is true. Sites
that compare their rolls see whether they were told the same, by the list and by `decision`, the
SHA-256 of all merged uploads. In a later edition of the job the roll holds the edition's record, and of
every merged upload its SHA-256 and its site's signature: so a site sees that the others did send these
uploads, and for this edition.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pace.errors import RollError, TooFewError, WithdrawnError
from pace.io import optional, records, untrusted
from pace.jobs import editions, signatures
from pace.jobs.admission import frame_of
from pace.jobs.editions import Edition, Evidence
from pace.jobs.job import SERVER, Job
from pace.jobs.journal import Journal
from pace.jobs.signatures import Key, sha256_of
from pace.tables import listed

FORMAT = "pace-roll-1"
ROLL_SUFFIX = ".roll"
LARGEST = 16 * 2**20  # bytes; a hundred thousand names fit
SHOWN = 12  # names in a sentence


@dataclass(frozen=True)
class Roll:
    """Who was in, as one receiver is told."""

    job: str
    receiver: str
    upload: str  # SHA-256 of the receiver's upload, without a signature
    returned: str  # SHA-256 of the receiver's return, as it was sent
    decision: str  # SHA-256 of who was merged with which upload: the same for every receiver
    merged: tuple[str, ...]
    refused: Mapping[str, str]  # who sent only uploads that were not taken, and the reason's code
    missing: tuple[str, ...]
    edition: Edition | None = optional(None)
    """Of the members; None: the first, the job's own."""
    evidence: Mapping[str, Evidence] = field(default_factory=dict, metadata=records.OPTIONAL)
    """In later editions: that each of the merged signed its upload for this one."""
    brought: Mapping[str, float] = field(default_factory=dict, metadata=records.OPTIONAL)
    """By name, how much the receiver's loss a label would rise without each other site's upload."""
    format: str = FORMAT

    @property
    def number(self) -> int:
        return 1 if self.edition is None else self.edition.number


def roll_writer(book: Journal, key: Key | None) -> Callable[[str, bytes], bytes]:
    """What makes the roll to a receiver and its return: the same bytes whenever it is asked."""
    job, decided, brought = book.job, book.decided(), book.brought()
    assert decided is not None  # rolls go with returns, which the decision comes before
    merged = sorted(decided.uploads.items())
    evidence = {name: Evidence.of(book.stored(name)) for name, _ in merged} if job.edition else {}

    def write_roll(name: str, returned: bytes) -> bytes:
        roll = Roll(
            job.digest,
            name,
            sha256_of(frame_of(book.stored(name), job)),
            sha256_of(returned),
            sha256_of(json.dumps(merged).encode()),
            merged=tuple(name for name, _ in merged),
            refused=decided.refused,
            missing=decided.missing,
            edition=job.edition,
            evidence=evidence,
            brought={} if brought is None else brought.to_receiver(name),
        )
        content = editions.encode_record(roll)
        if key is None:
            return content
        return signatures.sign(content, key, kind=signatures.ROLL, job=job.digest, name=name)

    return write_roll


def read_roll(content: bytes, job: Job, name: str) -> Roll:
    """The roll, if it is the server's word to this receiver."""
    if len(content) > LARGEST:
        raise RollError(f"the roll has {len(content):,} bytes, expected at most {LARGEST:,}")
    if job.signed:
        content = signatures.verify(
            content, job.keys[SERVER], kind=signatures.ROLL, job=job.digest, name=name
        )
    try:
        roll = records.read_record(Roll, untrusted.json(content), strict=True)
        texts = [roll.job, roll.receiver, roll.upload, roll.returned, roll.decision]
        texts += [*roll.merged, *roll.missing, *roll.refused.keys(), *roll.refused.values()]
        if roll.format != FORMAT or not all(0 < len(w) <= 64 and w.isprintable() for w in texts):
            raise ValueError
    except ValueError:
        raise RollError(
            "not a roll: get the file that the server wrote beside the return"
        ) from None
    return roll


def check_roll(
    content: bytes,
    job: Job,
    name: str,
    *,
    upload: bytes,
    returned: bytes,
    withdrawals: Sequence[Path] = (),
) -> Roll:
    """The roll, if it is the server's, of this job, to this receiver and with this return.

    `withdrawals` are files of those this site knows of: what was withdrawn may not be merged.
    """
    roll = read_roll(content, job, name)
    if roll.edition is not None:
        job = editions.check_edition(roll.edition, job)
        for merged in roll.merged:
            try:
                roll.evidence[merged].check(job, merged)
            except (LookupError, ValueError) as error:
                raise RollError(
                    f"edition {job.number} merged an upload of {merged!r} that it did not sign for "
                    f"this edition ({error}): nothing is adopted; ask {merged!r} and the server"
                ) from error
    for path in withdrawals:
        withdrawal = editions.read_withdrawal(path, job)
        leaver, member = withdrawal.name, editions.current_edition(job).members.get(withdrawal.name)
        if leaver in roll.merged and (member is None or member.since <= withdrawal.since):
            raise WithdrawnError(
                f"{leaver!r} withdrew its upload ({withdrawal.time[:10]}), and edition {job.number} "
                "merged it all the same: nothing is adopted; ask the server for an edition without it"
            )
    expected = (job.digest, name, sha256_of(upload), sha256_of(returned))
    for key, value in zip(("job", "receiver", "upload", "returned"), expected, strict=True):
        if getattr(roll, key) != value:
            raise RollError(
                f"the roll's {key} is {getattr(roll, key)[:16]!r}, expected {value[:16]!r}: "
                "get the roll that came with this return"
            )
    parties = [*roll.merged, *roll.refused, *roll.missing]
    if len(set(parties)) < len(parties) or name not in roll.merged:
        raise RollError(f"the roll names a participant twice, or {name!r} is not among the merged")
    if job.participants and set(parties) != set(job.participants):
        raise RollError("the roll names others than the job's participants")
    if len(roll.merged) < job.minimum:
        raise TooFewError(
            f"the server merged {len(roll.merged)} uploads, this job asks for at least "
            f"{job.minimum}: the return is not adopted"
        )
    return roll


def roll_sentences(roll: Roll | None, job: Job) -> list[str]:
    """Who was in, for people: as the server says, and no more than that."""
    if roll is None:
        return ["No roll came with the return: whose uploads were merged is not known here."]
    by = "signed by the server" if job.signed else "the server's word, not signed"
    total = len(roll.merged) + len(roll.refused) + len(roll.missing)
    lines = []
    if (edition := roll.edition) is not None:
        lines.append(f"This is edition {edition.number} of the job.")
        if edition.new:
            lines.append(f"New: {', '.join(edition.new)}.")
        for name, leaver in edition.gone.items():
            how = "withdrew" if leaver.withdrew else "was taken off the list"
            why = f": {leaver.reason}" if leaver.reason else ""
            lines.append(f"{name} {how} ({leaver.time[:10]}{why}).")
    lines.append(f"Merged: {listed(roll.merged, SHOWN)} ({len(roll.merged)} of {total}; {by}).")
    if roll.refused:
        refused = [f"{name} ({code})" for name, code in roll.refused.items()]
        lines.append(f"Refused: {listed(refused, SHOWN)}.")
    if roll.missing:
        lines.append(f"Missing: {listed(roll.missing, SHOWN)}.")
    return lines
