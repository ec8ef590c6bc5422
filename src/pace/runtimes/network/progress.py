"""Who is where in a round, for the operator: events as the round meets them, and a table of them.

The server writes each event as a line of its log, and who follows the log makes the table again:
so it can be watched from any machine that reaches the engine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from pace.io import untrusted
from pace.io.records import read_record

ASKED, UPLOADED, REFUSED, LOST = "asked", "uploaded", "refused", "lost"
RETURNED, ADOPTED = "returned", "adopted"
MISSING = "missing"  # listed in the job, and not heard of in this run
STATES = (MISSING, ASKED, UPLOADED, REFUSED, LOST, RETURNED, ADOPTED)
MARK, NOTE = "pace-event ", "pace-note "  # before an event, and before a sentence for the operator


@dataclass(frozen=True)
class Event:
    """One thing that happened with one node."""

    state: str
    node: str
    """Its number; empty for a participant that is missing."""
    name: str | None = None
    """The participant, once it is known which one the node is."""
    code: str = ""
    """Why it was refused or lost."""
    seconds: float = 0.0
    """From the question to the answer."""
    bytes: int = 0

    def line(self) -> str:
        return MARK + json.dumps(asdict(self))

    def sentence(self, who: str) -> str:
        words = f"{who}: {self.state}"
        words += f" ({self.code})" if self.code else ""
        words += f", {self.bytes:,} bytes" if self.bytes else ""
        return words + (f", after {self.seconds:.1f} s" if self.seconds else "")


def parse_event(line: str) -> Event | None:
    """The event of a line of the log, if it is one."""
    _, mark, content = line.partition(MARK)
    try:
        event = read_record(Event, untrusted.json(content), strict=True) if mark else None
    except (ValueError, TypeError):
        return None
    return event if event and event.state in STATES else None


@dataclass
class Row:
    """A participant, as far as the round has come with it."""

    who: str
    state: str
    code: str = ""
    upload_seconds: float | None = None
    return_seconds: float | None = None
    upload_bytes: int = 0
    return_bytes: int = 0
    asked: int = 0
    """How often it was asked."""
    node: str = ""


@dataclass(eq=False)
class Progress:
    """Rows in the order in which participants appeared."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """node -> name, as the operator registered them; for nodes that have not said who they are."""
    rows: dict[str, Row] = field(default_factory=dict)  # by node, or by name while it is missing

    def add(self, event: Event) -> Row:
        key = _unseen(event.name) if event.state == MISSING else event.node
        row = self.rows.setdefault(key, Row("", event.state, node=event.node))
        row.who = event.name or row.who or self.labels.get(event.node) or f"node {event.node[-5:]}"
        if event.state != MISSING:
            self.rows.pop(_unseen(row.who), None)
        row.state, row.code = event.state, event.code
        match event.state:
            case "asked":
                row.asked += 1
            case "uploaded":
                row.upload_seconds, row.upload_bytes = event.seconds, event.bytes
            case "returned":
                row.return_bytes = event.bytes
            case "adopted":
                row.return_seconds = event.seconds
        return row

    def cells(self) -> list[list[str]]:
        """A line for each participant: who, state, why, seconds and bytes of both ways."""
        return [
            [
                row.who,
                row.state,
                row.code,
                *("-" if time is None else f"{time:.1f}" for time in seconds),
                f"{row.upload_bytes:,}",
                f"{row.return_bytes:,}",
            ]
            for row in self.rows.values()
            if (seconds := (row.upload_seconds, row.return_seconds))
        ]


def _unseen(name: str | None) -> str:
    """The place of a participant that no node has been yet."""
    return f"missing {name}"


HEADS = ("Participant", "State", "Why", "Upload s", "Return s", "Bytes up", "Bytes down")
