"""The one round at the server: collect uploads into the journal, decide, deliver from the journal.

Nothing is held in memory that the journal does not hold. A round that was killed is run again with
the same job: who is in the journal is not asked again, and gets the same bytes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from flwr.serverapp import Grid

from pace.errors import PaceError, ParticipantError, TooFewError
from pace.jobs.admission import admit
from pace.jobs.journal import Journal
from pace.runtimes.files.intake import Refusal
from pace.runtimes.files.merge import answers, facts, server_key
from pace.runtimes.flower.bindings import Bindings
from pace.runtimes.flower.exchange import Answer, ask
from pace.runtimes.flower.records import RETURN, UPLOAD, Words, payload, text
from pace.runtimes.flower.settings import Settings
from pace.runtimes.flower.watchdog import OK

say = logging.getLogger("flwr").info  # Flower carries it to `flwr log`


@dataclass(frozen=True)
class Contact:
    """One answer of one node, or that there was none."""

    step: str  # upload or return
    node: str
    name: str | None
    code: str
    seconds: float


@dataclass(frozen=True, eq=False)
class Round:
    """What one run does, and what it met on the way."""

    grid: Grid
    book: Journal
    bound: Bindings
    settings: Settings
    contacts: list[Contact] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)

    def collect(self) -> None:
        """Ask every node whose upload is not here, until all have come or the deadline has."""
        settled: set[int] = set()
        idle: list[bool] = [False]  # nobody who is connected is left to be asked

        def due(online: set[int]) -> Mapping[int, Words]:
            known = self.bound.all()
            here = {known[name] for name in self.book.accepted() if name in known}
            invited = online & set(self.bound.fixed.values()) if self.bound.fixed else online
            idle[0] = bool(invited) and invited <= here | settled
            return {node: {"job": self.book.job.digest} for node in invited - here - settled}

        if self.complete(False):
            return
        until = time.monotonic() + self.settings.deadline
        for answer in ask(self.grid, UPLOAD, due, until=until, patience=self.settings.patience):
            if answer is not None:
                self.take(answer, settled)
            if self.complete(idle[0]):
                return

    def complete(self, idle: bool) -> bool:
        """Whether there is nothing to wait for: all are here, and it is known where they are."""
        decided, known = self.book.decision(), self.bound.all()
        here = set(self.book.accepted())
        if decided is not None:
            return set(decided) <= set(known)
        if self.book.job.participants:
            return here == set(self.book.job.participants) and here <= set(known)
        return idle and len(here) >= self.book.job.minimum

    def take(self, answer: Answer, settled: set[int]) -> None:
        """Journal an upload that may count, before it counts; write down any other answer."""
        name, code = text(answer.words, "name"), answer.lost or text(answer.words, "code")
        if not answer.lost:
            settled.add(answer.node)
        if code == OK:
            code = self._admitted(answer.node, name, payload(answer.words))
        self._met(UPLOAD, answer, name or None, code or "format")

    def _admitted(self, node: int, name: str, content: bytes) -> str:
        try:
            upload = admit(content, name, self.book.job)
            if upload.name != name:
                raise ParticipantError(
                    f"node {node} says it is {name!r}, the key {upload.name!r}'s"
                )
            self.bound.check(name, node)
            self.book.accept(upload)
            self.bound.bind(name, node)
        except PaceError as error:
            self.book.refuse(name or f"node-{node}", content, error)
            self.refused.append(Refusal(name or f"node-{node}", error.code, str(error)))
            return error.code
        return OK

    def deliver(self) -> list[str]:
        """Send everybody's return; the names of those who have not confirmed it."""
        key = server_key(self.book.job, self.settings.key)
        waiting = {name for name, _ in answers(self.book, key)}
        settled: set[int] = set()

        def due(online: set[int]) -> Mapping[int, Words]:
            return {
                node: {"job": self.book.job.digest, "payload": self.book.returned(name) or b""}
                for name, node in self.bound.all().items()
                if name in waiting and node in online - settled
            }

        until = time.monotonic() + self.settings.delivery
        for answer in ask(self.grid, RETURN, due, until=until, patience=self.settings.patience):
            if answer is not None:
                name = self.bound.name(answer.node)
                code = answer.lost or text(answer.words, "code") or OK
                if not answer.lost:
                    settled.add(answer.node)
                if code == OK:
                    waiting.discard(str(name))
                self._met(RETURN, answer, name, code)
            if not waiting:
                break
        return sorted(waiting)

    def _met(self, step: str, answer: Answer, name: str | None, code: str) -> None:
        found = Contact(step, str(answer.node), name, code, round(answer.seconds, 3))
        self.contacts.append(found)
        say("%s, node %s (%s): %s after %.1f s", step, found.node, name, code, found.seconds)


def play(grid: Grid, settings: Settings, book: Journal) -> dict[str, Any]:
    """The whole round; its report, which says whether it is finished."""
    server_key(book.job, settings.key)  # before anybody trains for nothing
    bound = Bindings(settings.journal / "nodes", settings.nodes)
    this = Round(grid, book, bound, settings)
    this.collect()
    undelivered: list[str] = []
    try:
        decided, why = book.close(), None
        undelivered = this.deliver()
    except TooFewError as error:
        decided, why = {}, str(error)
    return facts(book, this.refused, decided, why) | {
        "contacts": [asdict(each) for each in this.contacts],
        "undelivered": undelivered,
        "finished": bool(decided) and not undelivered,
    }
