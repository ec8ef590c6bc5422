"""Who is where in a round, for the operator: events as the round meets them, and a table of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pace.reports import Table

# A participant is missing if the job lists it and nothing was heard of it in this run. The engine
# itself is failing while its calls do.
State = Literal[
    "missing", "asked", "uploaded", "refused", "lost", "returned", "adopted", "failing", "working"
]
ENGINE = "the engine"
HEADS = ("Participant", "State", "Why", "Upload s", "Return s", "Bytes up", "Bytes down")


@dataclass(frozen=True)
class Event:
    """One thing that happened with one node."""

    state: State
    node: str  # its id; empty for a participant of which it is not known
    name: str | None = None  # the participant, once it is known which one the node is
    code: str = ""  # why it was refused or lost
    seconds: float = 0.0  # from the question to the answer
    bytes: int = 0

    def sentence(self, who: str) -> str:
        """The event in words."""
        code = f" ({self.code})" if self.code else ""
        size = f", {self.bytes:,} bytes" if self.bytes else ""
        after = f", after {self.seconds:.1f} s" if self.seconds else ""
        return f"{who}: {self.state}{code}{size}{after}"


@dataclass
class Row:
    """A participant, as far as the round has come with it."""

    who: str
    state: State
    code: str = ""
    upload_seconds: float | None = None
    return_seconds: float | None = None
    upload_bytes: int = 0
    return_bytes: int = 0
    asked: int = 0  # how often it was asked
    node: str = ""


@dataclass(eq=False)
class Progress:
    """Rows in the order in which participants appeared."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """node -> name, as the operator registered them; for nodes that have not said who they are."""
    rows: dict[str, Row] = field(default_factory=dict)  # by node; while that is unknown, by name

    def add(self, event: Event) -> Row:
        """The participant's row after an event."""
        key, former = event.node or f"? {event.name}", None
        name = event.name or self.labels.get(event.node)
        for other in [other for other, row in self.rows.items() if row.who == name]:
            if other != key and (event.name or not self.rows[other].node):
                former = self.rows.pop(other)  # the same participant, under another number before
        row = self.rows.setdefault(key, former or Row("", event.state))
        row.node = event.node
        short = event.node[-5:] if event.node.isdecimal() else event.node
        row.who = name or row.who or f"node {short}"
        again = row.code if event.state == "asked" else ""  # why it is asked once more
        row.state, row.code = event.state, event.code or again
        match event.state:
            case "asked":
                row.asked += 1
            case "uploaded":
                row.upload_seconds, row.upload_bytes = event.seconds, event.bytes
            case "returned":
                row.return_bytes = event.bytes
            case "adopted":
                row.return_seconds = event.seconds
            case "working":
                del self.rows[key]
        return row

    def table(self, title: str = "") -> Table:
        """A line for each participant: who, state, why, seconds and bytes of both ways."""
        lines = []
        for row in self.rows.values():
            times = (row.upload_seconds, row.return_seconds)
            seconds = ["-" if time is None else f"{time:.1f}" for time in times]
            sizes = [f"{row.upload_bytes:,}", f"{row.return_bytes:,}"]
            lines.append([row.who, row.state, row.code, *seconds, *sizes])
        return Table.of(title, HEADS, lines, words=0, names=3)
