"""The one round at the server: collect uploads into the journal, decide, deliver from the journal.

Everything that must survive is in the journal before it counts. A round that was killed is run again
with the same job: who is in the journal is not asked again, and gets the same bytes. What it needs to
know at every answer (who is here, who is which node) is read once and then kept up in memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pace.errors import FileError, PaceError, ParticipantError, SettingError, TooFewError
from pace.io import atomic, untrusted
from pace.jobs import Attendance, Journal, Refusal, admit
from pace.protocol import Received, steps
from pace.runtimes.files import merge, server_key
from pace.runtimes.network.exchange import OK, RETURN, UPLOAD, Answer, Exchange, Words, ask
from pace.runtimes.network.progress import Event, Progress, Row

LARGEST = 4096  # bytes of a file that names one node
Say = Callable[[Event], None]


@dataclass(frozen=True)
class Settings:
    """What the server's operator chose for a round. Paths are on its disk, times in seconds."""

    job: Path
    journal: Path
    out: Path  # the folder of the report
    key: Path | None = None  # the server's, where the job has keys
    nodes: Mapping[str, int] = field(default_factory=dict)  # participant -> node, where fixed
    deadline: float = 600.0  # for uploads: then those who are here are enough, or the run fails
    delivery: float | None = None  # for returns; None: by the number of nodes
    patience: float | None = None  # for one answer, before a node is asked again; None: the same

    def __post_init__(self) -> None:
        for name in ("deadline", "delivery", "patience"):
            seconds = getattr(self, name)
            if seconds is not None and not 0 < seconds < float("inf"):
                raise SettingError(f"{name} is {seconds:g}, expected seconds above 0")


def parse_nodes(text: str) -> dict[str, int]:
    """The operator's `north=123,south=456`."""
    nodes = {}
    for word in filter(None, map(str.strip, text.split(","))):
        if not (pair := re.fullmatch(r"([^=]+)=(\d+)", word)):
            raise SettingError(
                f"nodes has {word!r}, expected a name and the number that `pace flower register` "
                "gave, such as north=123"
            )
        nodes[pair[1]] = int(pair[2])
    return nodes


@dataclass(frozen=True, eq=False)
class Bindings:
    """Which node is which participant: the first whose upload was accepted, or who the operator says.

    The file journal/nodes/NAME.json is written once: a resumed run knows whom not to ask again.
    """

    folder: Path
    nodes: dict[str, int]  # participant -> node
    names: dict[int, str]  # node -> participant

    @classmethod
    def open(cls, folder: Path, fixed: Mapping[str, int]) -> Bindings:
        """Those in the journal, except where the operator fixed others."""
        nodes = {}
        for path in folder.glob("*.json"):
            try:
                nodes[path.stem] = int(untrusted.json(untrusted.read(path, LARGEST))["node"])
            except (ValueError, TypeError, LookupError) as error:
                text = f"{path} is damaged ({error!r}): restore it from a backup"
                raise FileError(text) from error
        nodes |= fixed
        return cls(folder, nodes, {node: name for name, node in nodes.items()})

    def check(self, name: str, node: int) -> None:
        """Refuse a node that claims another's name, or another name than before."""
        bound, former = self.nodes.get(name), self.names.get(node)
        if bound not in (None, node):
            raise ParticipantError(
                f"{name!r} is node {bound}, this is node {node}: if the site has registered anew, "
                f"start the run with nodes = '{name}={node}'"
            )
        if former not in (None, name):
            raise ParticipantError(f"node {node} is {former!r}, and now says it is {name!r}")

    def bind(self, name: str, node: int) -> None:
        """A name keeps the first node it was bound to."""
        atomic.create(self.folder / f"{name}.json", json.dumps({"node": str(node)}).encode())
        self.names.setdefault(self.nodes.setdefault(name, node), name)


@dataclass(frozen=True)
class Contact:
    """One answer of one node, or that there was none."""

    step: str  # upload or return
    node: str
    name: str | None
    code: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class RoundReport(merge.MergeReport):
    """What became of a job in one round over a network."""

    participants: tuple[Row, ...]  # how far the round came with each node
    contacts: tuple[Contact, ...]
    undelivered: tuple[str, ...]  # who has not confirmed its return
    finished: bool  # whether everybody has its return


@dataclass(frozen=True, eq=False)
class Round:
    """What one run does, and what it met on the way."""

    exchange: Exchange
    book: Journal
    bound: Bindings
    settings: Settings
    say: Say
    here: set[str]  # whose uploads are in the journal
    contacts: list[Contact] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    rolls: list[int] = field(default_factory=list)  # bytes of each that was sent

    def collect(self) -> None:
        """Ask every node whose upload is not here, until all have come or the deadline has."""
        decided, job = self.book.decision(), self.book.job
        answered: set[int] = set()
        idle = False  # all who are connected have answered

        def due(online: set[int]) -> set[int]:
            nonlocal idle
            invited = online & set(self.settings.nodes.values()) if self.settings.nodes else online
            missing = {node for node in invited if self.bound.names.get(node) not in self.here}
            idle = bool(invited) and missing <= answered
            return missing

        def words(node: int) -> Words:
            self.say(Event("asked", str(node), self.bound.names.get(node)))
            return {"job": job.digest}

        def complete() -> bool:
            """Whether there is nothing to wait for: all are here, and it is known where they are."""
            if decided is not None:
                return decided.keys() <= self.bound.nodes.keys()
            if job.participants:
                return self.here == set(job.participants) <= self.bound.nodes.keys()
            return idle and len(self.here) >= job.minimum

        if complete():
            return
        times = self._times(self.settings.deadline)
        for answer in ask(self.exchange, UPLOAD, due, words, **times):
            if answer is not None:
                if not answer.lost:
                    answered.add(answer.node)
                self.take(answer)
            if complete():
                return

    def take(self, answer: Answer) -> None:
        """Journal an upload that may count, before it counts; write down any other answer."""
        name, node = answer.words.get("name", ""), answer.node
        code, sent = answer.lost or answer.words.get("code", ""), answer.words.get("payload", b"")
        if code == OK:
            try:
                upload = admit(sent, name, self.book.job)
                if upload.name != name:
                    raise ParticipantError(
                        f"node {node} says it is {name!r}, the key {upload.name!r}'s"
                    )
                self.bound.check(name, node)
                self.book.accept(upload)
                self.bound.bind(name, node)
                self.here.add(name)
            except PaceError as error:
                refusal, code = self.book.refuse(name or f"node-{node}", sent, error), error.code
                if refusal not in self.refused:
                    self.refused.append(refusal)
        mine = code == OK or not self.bound.nodes.get(name)  # a name may be claimed, not taken
        self._meet(UPLOAD, answer, (name or None) if mine else None, code or "format")

    def deliver(self, uploads: Received) -> list[str]:
        """Send everybody's return; the names of those who have not confirmed it."""
        key = server_key(self.book.job, self.settings.key)
        waiting = set(merge.make_returns(self.book, key, uploads))
        attendance = Attendance.of(self.book)

        def due(online: set[int]) -> set[int]:
            return {node for node in online if self.bound.names.get(node) in waiting}

        def words(node: int) -> Words:
            name = self.bound.names[node]
            returned = self.book.returned(name)
            roll = attendance.roll(name, returned, key)
            self.rolls.append(len(roll))
            self.say(Event("returned", str(node), name, bytes=len(returned)))
            return {"job": self.book.job.digest, "payload": returned, "roll": roll}

        times = self._times(self.settings.delivery)
        for answer in ask(self.exchange, RETURN, due, words, **times):
            if answer is not None:
                name = self.bound.names.get(answer.node)
                code = answer.lost or answer.words.get("code") or OK
                if code == OK:
                    waiting.discard(str(name))
                self._meet(RETURN, answer, name, code)
            if not waiting:
                break
        return sorted(waiting)

    def _times(self, seconds: float | None) -> dict[str, float]:
        """The operator's times; where none is set, 300 s and 10 for each node."""
        ample = 300.0 + 10.0 * max(len(self.book.job.participants), len(self.exchange.nodes()))
        return {"seconds": seconds or ample, "patience": self.settings.patience or ample}

    def _meet(self, step: str, answer: Answer, name: str | None, code: str) -> None:
        node, seconds = str(answer.node), round(answer.seconds, 3)
        self.contacts.append(Contact(step, node, name, code, seconds))
        if code != OK:
            name = name or self.bound.names.get(answer.node)
            self.say(Event("lost" if answer.lost else "refused", node, name, code, seconds))
        elif step == UPLOAD:
            size = len(answer.words.get("payload", b""))
            self.say(Event("uploaded", node, name, seconds=seconds, bytes=size))
        else:
            self.say(Event("adopted", node, name, seconds=seconds))


def play_round(
    exchange: Exchange, settings: Settings, book: Journal, say: Say = lambda event: None
) -> RoundReport:
    """The whole round; its report, which says whether it is finished."""
    progress = Progress()

    def tell(event: Event) -> None:
        progress.add(event)
        say(event)

    server_key(book.job, settings.key)  # before anybody trains for nothing
    bound = Bindings.open(settings.journal / "nodes", settings.nodes)
    this = Round(exchange, book, bound, settings, tell, set(book.accepted()))
    for name in book.job.missing(book.decision() or this.here):
        tell(Event("missing", "", name))
    this.collect()
    undelivered: list[str] = []
    uploads, waiting = None, None
    try:
        book.close()
        uploads = steps.received(book.frames(), book.job.federation)
        undelivered = this.deliver(uploads)
    except TooFewError as error:
        waiting = str(error)
    size = max(this.rolls, default=0)
    merged = merge.merge_report(book, this.refused, uploads, waiting=waiting, roll=size)
    return RoundReport(
        **vars(merged),
        participants=tuple(progress.rows.values()),
        contacts=tuple(this.contacts),
        undelivered=tuple(undelivered),
        finished=uploads is not None and not undelivered,
    )
