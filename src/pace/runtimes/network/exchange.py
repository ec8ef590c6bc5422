"""Messages to nodes and their answers, as they come, with time limits, over any engine.

An engine is an `Exchange`: it knows who is connected, sends messages and hands over replies. When
to ask whom, for how long and when again is decided here.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pace.runtimes.network.messages import Words

LOOK, LIST = 0.2, 2.0  # seconds between looks for answers, and for nodes that joined or left
CROWD = 50  # messages out; above it looks are rarer, since each names all of them
BATCH = 32  # messages that are made and sent at once
PAUSE = 10.0  # seconds before a node whose answer was lost is asked again
MENDING, LONGEST = 15.0, 240.0  # the same for one that refused, twice as long each time
SILENT = "no-answer"


@dataclass(frozen=True, eq=False)
class Reply:
    """The reply to a message. Where the engine replied in the node's place, `lost` says why."""

    ticket: str
    words: Words
    lost: str = ""


class Exchange(Protocol):
    """An engine: all that the round needs of a network."""

    def nodes(self) -> set[int]:
        """Who is connected."""
        ...

    def send(self, kind: str, messages: Mapping[int, Words], *, expires: float) -> dict[str, int]:
        """Send each node its message, to be answered within `expires` seconds; ticket -> node."""
        ...

    def replies(self, tickets: Collection[str]) -> Iterable[Reply]:
        """Replies to these that have come since the last look, each given once."""
        ...


@dataclass(frozen=True, eq=False)
class Answer:
    """What a node replied, or that its reply was `lost`."""

    node: int
    words: Words
    lost: str
    seconds: float


@dataclass(frozen=True, eq=False)
class Sent:
    """A message that may still be answered."""

    node: int
    when: float
    expires: float


@dataclass(eq=False)
class Asking:
    """One question to many nodes: who is asked what, until when, and who rests meanwhile."""

    exchange: Exchange
    kind: str
    due: Callable[[set[int]], set[int]]
    """Of those connected, whom to ask."""
    words: Callable[[int], Words]
    """What to ask a node; called when it is asked, so that no more than a batch is held."""
    until: float
    patience: float
    """Seconds for an answer; a node whose message expired gets twice as many the next time."""

    out: dict[str, Sent] = field(default_factory=dict)
    resting: dict[int, float] = field(default_factory=dict)  # node -> until when
    expired: Counter[int] = field(default_factory=Counter)
    answered: Counter[int] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[Answer | None]:
        """Answers until the moment `until`, and None after each look, when the caller may stop."""
        listed = float("-inf")
        over = False
        while not over:
            now = time.monotonic()
            over = now >= self.until  # then one last look: answers may have come since the last
            if not over and now - listed >= LIST:
                listed = now
                self._send(now)
            for reply in self.exchange.replies(list(self.out)) if self.out else ():
                yield self._answer(reply)
            yield None
            if not over:
                time.sleep(LOOK * max(1.0, len(self.out) / CROWD))
        for sent in self.out.values():
            yield Answer(sent.node, {}, SILENT, time.monotonic() - sent.when)

    def _send(self, now: float) -> None:
        """Ask those who are due, unless an earlier message may still be answered or they rest."""
        busy = {sent.node for sent in self.out.values()}
        wanted = sorted(
            node
            for node in self.due(self.exchange.nodes()) - busy
            if now >= self.resting.get(node, now)
        )
        for times in sorted({self.expired[node] for node in wanted}):
            alike = [node for node in wanted if self.expired[node] == times]
            expires = max(1.0, min(self.patience * 2**times, self.until - now))
            for first in range(0, len(alike), BATCH):
                batch = {node: self.words(node) for node in alike[first : first + BATCH]}
                tickets = self.exchange.send(self.kind, batch, expires=expires)
                when = time.monotonic()
                self.out |= {ticket: Sent(node, when, expires) for ticket, node in tickets.items()}

    def _answer(self, reply: Reply) -> Answer:
        now, sent = time.monotonic(), self.out.pop(reply.ticket)
        rest = PAUSE
        if reply.lost:
            self.expired[sent.node] += now - sent.when >= sent.expires
        else:
            rest = min(MENDING * 2 ** self.answered[sent.node], LONGEST)
            self.answered[sent.node] += 1
        self.resting[sent.node] = now + rest
        return Answer(sent.node, reply.words, reply.lost, now - sent.when)
