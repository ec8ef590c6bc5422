"""A site's own limits on what may leave it, and the log of what was decided, chained by hashes.

    policy.toml   the limits, written by the person who answers for the site's data
    egress.log    one JSON object a line: a decision, the hash of the line before, its own hash

Both are in the user's state folder (`pace.io.atomic`). Who changes or removes a line breaks the chain
after it; who cuts off its end is found out by the hash of any later decision, which egress reports hold.
"""

import getpass
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pace.errors import FileError, SettingError
from pace.io import atomic, records, state_folder, untrusted
from pace.jobs import Job
from pace.protocol import layouts
from pace.runtimes.files.attacks import Risk

POLICY, LOG = "policy.toml", "egress.log"
LARGEST, LARGEST_LOG = 2**16, 2**26  # bytes
FIRST = "0" * 64  # in place of the hash before the first line


@dataclass(frozen=True)
class Limit:
    """One limit of a policy, and what was found."""

    rule: str
    found: str
    kept: bool


@dataclass(frozen=True)
class Policy:
    """What a site lets go; every key may be left out."""

    smallest_class: int = 0
    """Training nodes that each class must have which occurs at all."""
    largest_auc: float = 1.0
    """Of the best attack that tells training nodes from others: 0.5 is guessing."""
    sealed_only: bool = False
    """Whether the server may see sums only."""
    methods: tuple[str, ...] = ()
    """The methods that are allowed; empty: any."""
    editions: bool = True
    """Whether an upload may serve later editions of its job."""
    agree: bool = False
    """Whether an upload within the limits may go without a person's yes."""

    def __post_init__(self) -> None:
        if self.smallest_class < 0 or not 0 <= self.largest_auc <= 1:
            numbers = f"smallest_class is {self.smallest_class}, largest_auc {self.largest_auc:g}"
            raise SettingError(f"{numbers}, expected 0 or more, and 0 to 1")

    def limits(self, job: Job, smallest: int, risk: Risk | None, editions: bool) -> list[Limit]:
        """Those that are set, against an upload; `risk` is that of what the server will see."""
        found = []
        if self.smallest_class:
            rule = f"every class has {self.smallest_class} training nodes or more, or none"
            kept = smallest >= self.smallest_class
            found.append(Limit(rule, f"the smallest has {smallest}", kept))
        if self.largest_auc < 1:
            auc = None if risk is None else risk.auc
            if auc is None and not layouts.upload_layout(job.federation):
                auc = 0.5  # nothing is sent
            rule = f"membership is told with an AUC of at most {self.largest_auc:g}"
            said = "it could not be measured" if auc is None else f"{auc:.3f}"
            found.append(Limit(rule, said, auc is not None and auc <= self.largest_auc))
        if self.sealed_only:
            found.append(Limit("the job is sealed", "sealed" if job.sealed else "open", job.sealed))
        if self.methods:
            rule = f"the method is {' or '.join(self.methods)}"
            found.append(Limit(rule, job.method, job.method in self.methods))
        if not self.editions:
            said = "it may serve later editions" if editions else "this job alone"
            found.append(Limit("the upload serves no later edition", said, not editions))
        return found


def read_policy(path: Path | None = None) -> Policy | None:
    """The policy of a file, or the user's own; None where the user has none."""
    if path is None:
        path = state_folder() / POLICY
        if not path.exists():
            return None
    with records.reading(path, "no policy", "see docs/site.md for its keys"):
        content = untrusted.toml(untrusted.read(path, LARGEST))
        return records.read_record(Policy, content, "the policy", strict=True)


def log_file() -> Path:
    """Where the user's decisions are written down."""
    return state_folder() / LOG


def append_decision(entry: Mapping[str, Any]) -> str:
    """Put a decision at the end of the log; its hash."""
    path = log_file()
    with atomic.held(path.with_name(f".{LOG}.lock"), f"another process writes {path}", 30):
        number, last = verify_log(path) if path.exists() else (0, FIRST)
        before = untrusted.read(path, LARGEST_LOG) if number else b""
        made = {"number": number + 1, "time": datetime.now(UTC).isoformat(timespec="seconds")}
        made |= {"user": getpass.getuser(), **entry, "previous": last}
        own = _hash(made)
        line = json.dumps({**made, "hash": own}, sort_keys=True)
        atomic.write(path, before + line.encode() + b"\n", private=True)
    return own


def verify_log(path: Path, head: str = "") -> tuple[int, str]:
    """How many decisions a log holds and the hash of the last; FileError where the chain is broken.

    `head` is a hash that must be among them, such as a report's: a log that was cut off lacks it.
    """
    last, number, found = FIRST, 0, not head
    for number, line in enumerate(untrusted.read(path, LARGEST_LOG).splitlines(), start=1):
        with records.reading(path, f"damaged in line {number}", "compare it with a backup"):
            entry = dict(untrusted.json(line))
            own = entry.pop("hash", None)
        if entry.get("previous") != last or own != _hash(entry) or entry.get("number") != number:
            wrong = f"line {number} of {path} is not what was written there, or others are missing"
            raise FileError(f"{wrong}: compare it with a backup and the egress reports")
        last, found = own, found or own == head
    if not found:
        found_none = f"{path} has {number} decisions and none with hash {head[:16]}"
        raise FileError(f"{found_none}: its end was cut off, or it is another log")
    return number, last


def _hash(entry: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()
