"""The one round at the server: collect uploads into the journal, decide, deliver from the journal.

Everything that must survive is in the journal before it counts. A round that was killed is run again
with the same job: who is in the journal is not asked again, and gets the same bytes. What it needs to
know at every answer (who is here, who is which node) is read once and then kept up in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pace.errors import PaceError, ParticipantError, TooFewError
from pace.jobs.admission import admit
from pace.jobs.journal import Journal, Refusal
from pace.jobs.roll import Attendance
from pace.protocol.uploads import Received
from pace.runtimes.files.merge import (
    MergeReport,
    decided_uploads,
    make_returns,
    merge_report,
    server_key,
)
from pace.runtimes.network.bindings import Bindings
from pace.runtimes.network.exchange import Answer, Asking, Exchange
from pace.runtimes.network.messages import OK, RETURN, UPLOAD, Words, word_bytes, word_text
from pace.runtimes.network.progress import (
    ADOPTED,
    ASKED,
    LOST,
    MISSING,
    REFUSED,
    RETURNED,
    UPLOADED,
    Event,
    Progress,
    Row,
)
from pace.runtimes.network.settings import Settings

FIXED, EACH = 300.0, 10.0  # seconds for one answer or all deliveries: for any round, and a node


@dataclass(frozen=True)
class Contact:
    """One answer of one node, or that there was none."""

    step: str  # upload or return
    node: str
    name: str | None
    code: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class RoundReport(MergeReport):
    """What became of a job in one round over a network."""

    participants: tuple[Row, ...]
    """How far the round came with each node."""
    contacts: tuple[Contact, ...]
    undelivered: tuple[str, ...]
    """Who has not confirmed its return."""
    finished: bool
    """Whether everybody has its return."""


@dataclass(frozen=True, eq=False)
class Round:
    """What one run does, and what it met on the way."""

    exchange: Exchange
    book: Journal
    bound: Bindings
    settings: Settings
    say: Callable[[Event], None]
    here: set[str]  # whose uploads are in the journal
    contacts: list[Contact] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    rolls: list[int] = field(default_factory=list)  # bytes of each that was sent

    def collect(self) -> None:
        """Ask every node whose upload is not here, until all have come or the deadline has."""
        decided = self.book.decision()
        answered: set[int] = set()
        idle = False  # all who are connected have answered

        def due(online: set[int]) -> set[int]:
            nonlocal idle
            invited = online & set(self.settings.nodes.values()) if self.settings.nodes else online
            missing = {node for node in invited if self.bound.names.get(node) not in self.here}
            idle = bool(invited) and missing <= answered
            return missing

        def complete() -> bool:
            """Whether there is nothing to wait for: all are here, and it is known where they are."""
            if decided is not None:
                return decided.keys() <= self.bound.nodes.keys()
            if self.book.job.participants:
                listed = set(self.book.job.participants)
                return self.here == listed <= self.bound.nodes.keys()
            return idle and len(self.here) >= self.book.job.minimum

        if complete():
            return
        for answer in self._ask(UPLOAD, due, self._asked, self.settings.deadline):
            if answer is not None:
                if not answer.lost:
                    answered.add(answer.node)
                self.take(answer)
            if complete():
                return

    def take(self, answer: Answer) -> None:
        """Journal an upload that may count, before it counts; write down any other answer."""
        name, code = word_text(answer.words, "name"), answer.lost or word_text(answer.words, "code")
        sent = word_bytes(answer.words, "payload")
        if code == OK:
            code = self._admitted(answer.node, name, sent)
        mine = code == OK or not self.bound.nodes.get(name)  # a name may be claimed, not taken
        self._met(UPLOAD, answer, (name or None) if mine else None, code or "format", len(sent))

    def _admitted(self, node: int, name: str, sent: bytes) -> str:
        try:
            upload = admit(sent, name, self.book.job)
            if upload.name != name:
                raise ParticipantError(
                    f"node {node} says it is {name!r}, the key {upload.name!r}'s"
                )
            self.bound.check(name, node)
            self.book.accept(upload)
            self.bound.bind(name, node)
        except PaceError as error:
            refusal = self.book.refuse(name or f"node-{node}", sent, error)
            if refusal not in self.refused:
                self.refused.append(refusal)
            return error.code
        self.here.add(name)
        return OK

    def deliver(self, uploads: Received) -> list[str]:
        """Send everybody's return; the names of those who have not confirmed it."""
        key = server_key(self.book.job, self.settings.key)
        waiting = set(make_returns(self.book, key, uploads))
        attendance = Attendance.of(self.book)
        seconds = self.settings.delivery or FIXED + EACH * self.size

        def due(online: set[int]) -> set[int]:
            return {node for node in online if self.bound.names.get(node) in waiting}

        def returned(node: int) -> Words:
            name = self.bound.names[node]
            made = self.book.returned(name)
            roll = attendance.roll(name, made, key)
            self.rolls.append(len(roll))
            self.say(Event(RETURNED, str(node), name, bytes=len(made)))
            return {"job": self.book.job.digest, "payload": made, "roll": roll}

        for answer in self._ask(RETURN, due, returned, seconds):
            if answer is not None:
                name = self.bound.names.get(answer.node)
                code = answer.lost or word_text(answer.words, "code") or OK
                if code == OK:
                    waiting.discard(str(name))
                self._met(RETURN, answer, name, code, 0)
            if not waiting:
                break
        return sorted(waiting)

    def _asked(self, node: int) -> Words:
        self.say(Event(ASKED, str(node), self.bound.names.get(node)))
        return {"job": self.book.job.digest}

    def _ask(
        self,
        kind: str,
        due: Callable[[set[int]], set[int]],
        words: Callable[[int], Words],
        seconds: float,
    ) -> Asking:
        patience = self.settings.patience or FIXED + EACH * self.size
        return Asking(self.exchange, kind, due, words, time.monotonic() + seconds, patience)

    @property
    def size(self) -> int:
        """How many nodes there may be."""
        return max(len(self.book.job.participants), len(self.exchange.nodes()))

    def _met(self, step: str, answer: Answer, name: str | None, code: str, size: int) -> None:
        node, seconds = str(answer.node), round(answer.seconds, 3)
        self.contacts.append(Contact(step, node, name, code, seconds))
        if code == OK:
            state = UPLOADED if step == UPLOAD else ADOPTED
            self.say(Event(state, node, name, seconds=seconds, bytes=size))
        else:
            state = LOST if answer.lost else REFUSED
            self.say(Event(state, node, name or self.bound.names.get(answer.node), code, seconds))


def play_round(
    exchange: Exchange,
    settings: Settings,
    book: Journal,
    say: Callable[[Event], None] = lambda event: None,
) -> RoundReport:
    """The whole round; its report, which says whether it is finished."""
    progress = Progress()

    def told(event: Event) -> None:
        progress.add(event)
        say(event)

    server_key(book.job, settings.key)  # before anybody trains for nothing
    bound = Bindings.open(settings.journal / "nodes", settings.nodes)
    this = Round(exchange, book, bound, settings, told, set(book.accepted()))
    for name in book.job.missing(book.decision() or this.here):
        told(Event(MISSING, "", name))
    this.collect()
    undelivered: list[str] = []
    uploads, waiting = None, None
    try:
        book.close()
        uploads = decided_uploads(book)
        undelivered = this.deliver(uploads)
    except TooFewError as error:
        waiting = str(error)
    size = max(this.rolls, default=0)
    merged = merge_report(book, this.refused, uploads, waiting=waiting, roll=size)
    return RoundReport(
        **vars(merged),
        participants=tuple(progress.rows.values()),
        contacts=tuple(this.contacts),
        undelivered=tuple(undelivered),
        finished=uploads is not None and not undelivered,
    )
