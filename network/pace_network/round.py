"""The one round at the server: collect uploads into the journal, decide, deliver from the journal.

Everything that must survive is in the journal before it counts. A round that was killed is run again
with the same job: who is in the journal is not asked again, and gets the same bytes. What it needs to
know at every answer (who is here, who is which node) is read once and then kept up in memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from pace.errors import PaceError, ParticipantError, SettingError, TooFewError
from pace.io import atomic, records
from pace.jobs import Journal, Refusal, admit, read_job, roll_writer
from pace.protocol import Received, steps
from pace.runtimes.files import Changes, merge, server_key
from pace_network.exchange import OK, RETURN, UPLOAD, Answer, EngineError, Exchange, Words, ask
from pace_network.progress import ENGINE, Event, Progress, Row
from pace_network.status import StatusPage

LARGEST = 4096  # bytes of a file that names one node
ADOPTING = 60.0  # seconds to answer a return; then it is sent again, which changes nothing
Say = Callable[[Event], None]


@dataclass(frozen=True)
class Settings:
    """What the server's operator chose for a round. Paths are on its disk, times in seconds."""

    job: Path
    journal: Path
    out: Path  # the folder of the report
    key: Path | None = None  # the server's, where the job has keys
    nodes: Mapping[str, str] = field(default_factory=dict)  # participant -> node, where fixed
    deadline: float = 600.0  # for uploads: then those who are here are enough, or the run fails
    delivery: float | None = None  # for returns; None: by the number of nodes
    patience: float | None = None  # for an answer, before a node is asked again; None: by the step

    def __post_init__(self) -> None:
        for name in ("deadline", "delivery", "patience"):
            seconds = getattr(self, name)
            if seconds is not None and not 0 < seconds < float("inf"):
                raise SettingError(f"{name} is {seconds:g}, expected seconds above 0")

    def edition_folder(self, number: int) -> Path:
        """Where a later edition's record and certificates are put for who needs them."""
        return self.out / f"edition-{number}"


def parse_nodes(text: str) -> dict[str, str]:
    """The operator's `north=123,south=456`."""
    pairs = [word.strip().partition("=") for word in text.split(",") if word.strip()]
    if not all(name and node for name, _, node in pairs):
        raise SettingError(f"nodes is {text!r}, expected names and nodes' ids, such as north=123")
    return {name: node for name, _, node in pairs}


@dataclass(frozen=True)
class Binding:
    """journal/nodes/NAME.json."""

    node: str


@dataclass(frozen=True, eq=False)
class Bindings:
    """Which node is which participant: the first whose upload was accepted, or who the operator says.

    Each file is written once: a resumed run knows whom not to ask again.
    """

    folder: Path
    nodes: dict[str, str]  # participant -> node
    names: dict[str, str]  # node -> participant

    @classmethod
    def open(cls, folder: Path, fixed: Mapping[str, str]) -> Bindings:
        """Those in the journal, except where the operator fixed others."""
        files = folder.glob("*.json")
        nodes = {path.stem: records.load_record(Binding, path, LARGEST).node for path in files}
        nodes |= fixed
        return cls(folder, nodes, {node: name for name, node in nodes.items()})

    def check(self, name: str, node: str) -> None:
        """Refuse a node that claims another's name, or another name than before."""
        bound, former = self.nodes.get(name), self.names.get(node)
        if bound not in (None, node):
            raise ParticipantError(
                f"{name!r} is node {bound}, this is node {node}: if the site has registered anew, "
                f"start the run with --nodes {name}={node}"
            )
        if former not in (None, name):
            raise ParticipantError(f"node {node} is {former!r}, and now says it is {name!r}")

    def bind(self, name: str, node: str) -> None:
        """A name keeps the first node it was bound to."""
        atomic.create(self.folder / f"{name}.json", json.dumps({"node": node}).encode())
        self.names.setdefault(self.nodes.setdefault(name, node), name)

    def release(self, name: str) -> None:
        """Forget where a name is: its node is gone, and its key has signed elsewhere."""
        self.names.pop(self.nodes.pop(name), None)
        (self.folder / f"{name}.json").unlink(missing_ok=True)


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
    moved: Mapping[str, str]  # participants that came as another node than before, and which
    lost: str  # why the engine was lost
    finished: bool  # whether everybody has its return


@dataclass(eq=False)
class Round:
    """What one run does, and what it met on the way."""

    exchange: Exchange
    book: Journal
    bound: Bindings
    settings: Settings
    say: Say
    here: set[str]  # whose uploads are in the journal
    online: set[str] = field(default_factory=set)
    contacts: list[Contact] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)

    def collect(self) -> None:
        """Ask every node whose upload is not here, until all have come or the deadline has."""
        decided, job = self.book.decision(), self.book.job
        answered: set[str] = set()
        idle = False  # all who are connected have answered

        def due(online: set[str]) -> dict[str, str]:
            nonlocal idle
            invited = self._invited(online)
            missing = {node for node in invited if self.bound.names.get(node) not in self.here}
            idle = bool(invited) and missing <= answered
            return dict.fromkeys(missing, UPLOAD)

        def complete() -> bool:
            """Whether there is nothing to wait for: all are here, and it is known where they are."""
            if decided is not None:
                return decided.keys() <= self.bound.nodes.keys()
            if job.participants:
                return self.here == set(job.participants) <= self.bound.nodes.keys()
            return idle and len(self.here) >= job.minimum

        if complete():
            return
        for answer in self._ask(due, self._question, self.settings.deadline):
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
                self._accept(name, node, sent)
            except PaceError as error:
                refusal, code = self.book.refuse(name or f"node-{node}", sent, error), error.code
                if refusal not in self.refused:
                    self.refused.append(refusal)
        mine = code == OK or not self.bound.nodes.get(name)  # a name may be claimed, not taken
        self._meet(answer, (name or None) if mine else None, code or "format")

    def _accept(self, name: str, node: str, sent: bytes) -> None:
        upload, gone = admit(sent, name, self.book.job), self.bound.nodes.get(name)
        if upload.name != name:
            raise ParticipantError(f"node {node} says it is {name!r}, the key {upload.name!r}'s")
        if gone not in (None, node, *self.online) and name not in self.settings.nodes:
            self.moved[name] = node
            if self.book.job.signed and node not in self.bound.names:
                self.bound.release(name)  # it has shown its key, and its former node is not here
        self.bound.check(name, node)
        self.book.accept(upload)
        self.bound.bind(name, node)
        self.moved.pop(name, None)
        self.here.add(name)

    def deliver(self, uploads: Received) -> list[str]:
        """Send everybody's return; the names of those who have not confirmed it.

        Where the node of a name is gone, those whom nobody knows are asked who they are.
        """
        key = server_key(self.book.job, self.settings.key)
        waiting = set(merge.make_returns(self.book, key, uploads))
        roll = roll_writer(self.book, key)

        def due(online: set[str]) -> dict[str, str]:
            nodes = {node: RETURN for node in online if self.bound.names.get(node) in waiting}
            if len(nodes) < len(waiting):
                strangers = self._invited(online) - self.bound.names.keys()
                nodes |= dict.fromkeys(strangers, UPLOAD)
            return nodes

        def words(node: str, kind: str) -> Words:
            if kind == UPLOAD:
                return self._question(node, kind)
            name = self.bound.names[node]
            returned = self.book.returned(name)
            self.say(Event("returned", node, name, bytes=len(returned)))
            return {"job": self.book.job.digest, "payload": returned, "roll": roll(name, returned)}

        for answer in self._ask(due, words, self.settings.delivery, ADOPTING):
            if answer is not None and answer.kind == UPLOAD:
                self.take(answer)
            elif answer is not None:
                name = self.bound.names.get(answer.node)
                code = answer.lost or answer.words.get("code") or OK
                if code == OK:
                    waiting.discard(str(name))
                self._meet(answer, name, code)
            if not waiting:
                break
        return sorted(waiting)

    def _invited(self, online: set[str]) -> set[str]:
        """Whom to ask: those the operator fixed, if any, without those who left."""
        edition = self.book.job.edition
        left = {self.bound.nodes.get(name, "") for name in (edition.left if edition else ())}
        return (
            online & set(self.settings.nodes.values()) if self.settings.nodes else online
        ) - left

    def _question(self, node: str, kind: str) -> Words:
        self.say(Event("asked", node, self.bound.names.get(node)))
        return {"job": self.book.job.digest}

    def _ask(
        self,
        due: Callable[[set[str]], Mapping[str, str]],
        words: Callable[[str, str], Words],
        seconds: float | None,
        patience: float = float("inf"),
    ) -> Iterator[Answer | None]:
        """Ask within the operator's times; where none is set, 300 s and 10 for each participant.

        Who has not answered for `patience` seconds is asked again.
        """

        def noting(online: set[str]) -> Mapping[str, str]:
            self.online = online
            return due(online)

        def failing(why: str) -> None:
            self.say(Event("failing" if why else "working", "", ENGINE, why))

        ample = 300.0 + 10.0 * max(len(self.book.job.participants), len(self.here))
        engines = getattr(self.exchange, "patience", ample)
        patience = self.settings.patience or min(patience, engines, ample)
        times = {"seconds": seconds or ample, "patience": patience}
        yield from ask(self.exchange, noting, words, **times, failing=failing)

    def _meet(self, answer: Answer, name: str | None, code: str) -> None:
        node, seconds = answer.node, round(answer.seconds, 3)
        self.contacts.append(Contact(answer.kind, node, name, code, seconds))
        if code != OK:
            name = name or self.bound.names.get(node)
            self.say(Event("lost" if answer.lost else "refused", node, name, code, seconds))
        elif answer.kind == UPLOAD:
            size = len(answer.words.get("payload", b""))
            self.say(Event("uploaded", node, name, seconds=seconds, bytes=size))
        else:
            self.say(Event("adopted", node, name, seconds=seconds))


def play_round(
    exchange: Exchange, settings: Settings, book: Journal, say: Say = lambda event: None
) -> RoundReport:
    """The whole round; its report, which says whether it is finished."""
    progress, page = Progress(), StatusPage(settings.out / "status.html", book.job)

    def tell(event: Event) -> None:
        progress.add(event)
        page.update(progress)
        say(event)

    server_key(book.job, settings.key)  # before anybody trains for nothing
    bound = Bindings.open(settings.journal / "nodes", settings.nodes)
    this = Round(exchange, book, bound, settings, tell, here=set(book.accepted()))
    for name in book.job.missing(book.decision() or this.here):
        tell(Event("missing", "", name))
    for name in sorted(this.here):  # by an earlier run
        tell(Event("uploaded", bound.nodes.get(name, ""), name, bytes=len(book.stored(name))))
    undelivered: list[str] = []
    uploads, waiting, lost = None, None, ""
    try:
        this.collect()
        book.close()
        uploads = steps.received(book.frames(), book.job.federation)
        undelivered = this.deliver(uploads)
    except TooFewError as error:
        waiting = str(error)
    except EngineError as error:
        lost = waiting = str(error)
        undelivered = sorted(book.decision() or ())
    page.write(f"The round has ended. {lost or waiting or 'The returns are made.'}")
    merged = merge.merge_report(book, this.refused, uploads, waiting=waiting)
    return RoundReport(
        **vars(merged),
        participants=tuple(progress.rows.values()),
        contacts=tuple(this.contacts),
        undelivered=tuple(undelivered),
        moved=this.moved,
        lost=lost,
        finished=uploads is not None and not undelivered and not lost,
    )


def begin_edition(settings: Settings, changes: Changes) -> Path | None:
    """Begin a job's next edition in its journal; the file of its record, which who is new needs.

    Changes that were made before are not made again, so the same call goes on after a crash.
    """
    job = read_job(settings.job)
    with Journal.working(settings.journal, job) as journal:
        journal = changes.begin(journal, server_key(job, settings.key))
        return merge.put_edition(journal, settings.edition_folder(journal.job.number))


def run_round(
    exchange: Exchange, settings: Settings, say: Say = lambda event: None, patience: float = 0.0
) -> RoundReport:
    """The round with its journal and report; another server at work is waited for `patience` seconds."""
    torch.set_num_threads(1)  # returns are the same whatever the machine
    with Journal.working(settings.journal, read_job(settings.job), patience) as journal:
        report = play_round(exchange, settings, journal, say)
        if report.merged:
            place, key = settings.edition_folder(report.edition), settings.key
            merge.put_certificates(journal, place, server_key(journal.job, key))
        rows = {row.node or row.who: row for row in report.participants}
        table = Progress(rows=rows).table("Participants of this run")
        merge.write_report(settings.out, report, table)
    return report


def round_sentences(report: RoundReport) -> list[str]:
    """What became of the round and what to do next."""
    lines = merge.merge_sentences(report)
    if report.undelivered:
        lines.append(
            f"No confirmation from {', '.join(report.undelivered)}: run it again for them."
        )
    if report.moved:
        fixed = ",".join(f"{name}={node}" for name, node in report.moved.items())
        lines.append(
            f"Nodes have other numbers than before. If you know them, add: --nodes {fixed}"
        )
    return lines
