"""Engines with three sites behind them, and faults between an engine and the round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pace.jobs import Journal, read_job
from pace_network import exchange, site_steps
from pace_network.exchange import Exchange, Reply, Words, answer_letters
from pace_network.folder import FolderNode, SharedFolder
from pace_network.progress import Event
from pace_network.round import RoundReport, play_round
from tests.in_memory import Clock
from tests.networked import connected, server_settings, site_nodes
from tests.sites import NAMES


@dataclass
class World:
    """An engine: how its server starts, and what its sites do while the server waits."""

    start: Callable[[], Exchange]
    turn: Callable[[], None] = lambda: None


def memory(root: Path, names: Sequence[str] = NAMES) -> World:
    return World(lambda: connected(site_nodes(root, names)))


def folder(root: Path, names: Sequence[str] = NAMES) -> World:
    (root / "share").mkdir()
    nodes = [folder_node(root, name) for name in names]
    for node in nodes:
        node.mine.mkdir()

    def turn() -> None:
        for node in nodes:
            answer_letters(node, partial(site_steps.answer_message, node), once=True)

    return World(lambda: SharedFolder(root / "share"), turn)


def folder_node(root: Path, name: str, **changes: Any) -> FolderNode:
    site = root / name
    (site / "state").mkdir(exist_ok=True)
    paths = {"job": "job.pace", "graph": "mine.graph", "folder": "state"}
    settings: dict[str, Any] = {key: site / path for key, path in paths.items()}
    return FolderNode(name=name, share=root / "share", **(settings | changes))


def flower(root: Path, names: Sequence[str] = NAMES) -> World:
    pytest.importorskip("flwr", reason="needs pace-network[flower]: run `make test-flower`")
    from pace_network.flower.server import GridExchange
    from tests.flowered import HomeGrid

    nodes = site_nodes(root, names)
    return World(lambda: GridExchange(HomeGrid(nodes)))


def nvflare(root: Path, names: Sequence[str] = NAMES) -> World:
    pytest.importorskip("nvflare", reason="needs pace-network[nvflare]: run `make test-nvflare`")
    from tests.nvflared import home_exchange

    return World(lambda: home_exchange(site_nodes(root, names)))


ENGINES = {"memory": memory, "folder": folder, "flower": flower, "nvflare": nvflare}


class StoppedError(BaseException):
    """The server is killed."""


@dataclass(eq=False)
class Fault:
    """An engine that keeps to its contract; each kind below breaks it in one way."""

    exchange: Exchange
    clock: Clock
    sent: dict[str, str] = field(default_factory=dict)  # ticket -> node
    count: int = 0

    def nodes(self) -> set[str]:
        return self.exchange.nodes()

    def send(self, kind: str, messages: Mapping[str, Words], *, expires: float) -> dict[str, str]:
        tickets = self.exchange.send(kind, messages, expires=expires)
        self.sent |= tickets
        return tickets

    def replies(self, tickets: Collection[str]) -> Iterable[Reply]:
        self.count += 1
        return self.exchange.replies(tickets)


@dataclass(eq=False)
class Silent(Fault):
    """Of the first two answers of each node nothing ever comes, nor word that they expired."""

    lost: dict[str, int] = field(default_factory=dict)

    def replies(self, tickets: Collection[str]) -> Iterator[Reply]:
        for reply in self.exchange.replies(tickets):
            node = self.sent[reply.ticket]
            self.lost[node] = self.lost.get(node, 0) + 1
            if self.lost[node] > 2:
                yield reply


@dataclass(eq=False)
class Slow(Fault):
    """Every answer comes long after its message has expired."""

    held: list[tuple[float, Reply]] = field(default_factory=list)

    def replies(self, tickets: Collection[str]) -> Iterator[Reply]:
        self.held += [(self.clock.now + 100, reply) for reply in self.exchange.replies(tickets)]
        ready = [reply for when, reply in self.held if when <= self.clock.now]
        self.held = [pair for pair in self.held if pair[0] > self.clock.now]
        yield from ready


@dataclass(eq=False)
class Doubled(Fault):
    """Every answer comes twice at once, and once more with each later look."""

    past: list[Reply] = field(default_factory=list)

    def replies(self, tickets: Collection[str]) -> Iterator[Reply]:
        for reply in self.exchange.replies(tickets):
            self.past.append(reply)
            yield reply
        yield from self.past


@dataclass(eq=False)
class Reordered(Fault):
    """Answers come in the opposite order, and the first only after the others."""

    held: list[Reply] = field(default_factory=list)

    def replies(self, tickets: Collection[str]) -> list[Reply]:
        came = self.held + list(self.exchange.replies(tickets))
        self.held = came[:1] if len(came) > 1 else []
        return came[:0:-1] if len(came) > 1 else came


@dataclass(eq=False)
class Lost(Fault):
    """Each third message is not sent at all, and of each fourth answer the engine says it is lost."""

    messages: int = 0

    def send(self, kind: str, messages: Mapping[str, Words], *, expires: float) -> dict[str, str]:
        kept = {}
        for node, words in messages.items():
            self.messages += 1
            if self.messages % 3:
                kept[node] = words
        return super().send(kind, kept, expires=expires)

    def replies(self, tickets: Collection[str]) -> Iterator[Reply]:
        for reply in self.exchange.replies(tickets):
            self.count += 1
            yield Reply(reply.ticket, {}, "gone") if self.count % 4 == 0 else reply


@dataclass(eq=False)
class Failing(Fault):
    """Each third call is an error of the operating system, also in the middle of replies."""

    calls: int = 0

    def fail(self) -> None:
        self.calls += 1
        if self.calls % 3 == 1:
            raise OSError(5, "Input/output error")

    def nodes(self) -> set[str]:
        self.fail()
        return super().nodes()

    def send(self, kind: str, messages: Mapping[str, Words], *, expires: float) -> dict[str, str]:
        self.fail()
        return super().send(kind, messages, expires=expires)

    def replies(self, tickets: Collection[str]) -> Iterator[Reply]:
        for reply in self.exchange.replies(tickets):
            yield reply
            self.fail()


@dataclass(eq=False)
class Restarted(Fault):
    """The server is killed when the first return is on its way."""

    def send(self, kind: str, messages: Mapping[str, Words], *, expires: float) -> dict[str, str]:
        tickets = super().send(kind, messages, expires=expires)
        if kind == "return":
            raise StoppedError
        return tickets


@dataclass(eq=False)
class Hostile(Fault):
    """Answers to what nobody asked, words of other kinds and sizes, and first a lie for every node."""

    lied: set[str] = field(default_factory=set)

    def replies(self, tickets: Collection[str]) -> Iterator[Reply]:
        yield Reply("unheard of", {"code": "ok", "name": "north", "payload": b"x"})
        for reply in self.exchange.replies(tickets):
            node = self.sent[reply.ticket]
            if node in self.lied:
                yield Reply(reply.ticket, {**reply.words, "epochs": 10**9, "folder": "/etc"})
                continue
            self.lied.add(node)
            lies: list[dict[str, object]] = [
                {"code": "ok", "name": "north", "payload": b"\0" * 1000},
                {"code": 5, "name": ["north"], "payload": "text", "roll": None},
                {"code": "\x1b[2J", "name": "n" * 10_000, "payload": b""},
            ]
            yield Reply(reply.ticket, lies[len(self.lied) % 3])


FAULTS = {
    fault.__name__.lower(): fault
    for fault in (Fault, Silent, Slow, Doubled, Reordered, Lost, Failing, Restarted, Hostile)
}


def play_faulty(
    root: Path,
    engine: str,
    fault: str,
    names: Sequence[str] = NAMES,
    say: Callable[[Event], None] = lambda event: None,
) -> tuple[RoundReport, float]:
    """The report of a round with a fault, and the seconds that it would have waited."""
    clock, world = Clock(), ENGINES[engine](root, names)

    def sleep(seconds: float) -> None:
        clock.now += seconds
        world.turn()

    clock.sleep = sleep  # type: ignore[method-assign]
    settings = server_settings(root, deadline=3000.0, delivery=3000.0, patience=20.0)
    book = Journal.open(settings.journal, read_job(settings.job))
    with mock.patch.object(exchange, "time", clock):
        broken = FAULTS[fault](world.start(), clock)
        if FAULTS[fault] is Restarted:
            with pytest.raises(StoppedError):
                play_round(broken, settings, book)
            broken = FAULTS["fault"](world.start(), clock)
        return play_round(broken, settings, book, say), clock.now
