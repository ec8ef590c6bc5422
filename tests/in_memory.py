"""An engine without a network, and a time that does not pass by itself."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from pace_network.exchange import Reply, Words

Handler = Callable[[str, Words], Words | None]  # kind, words -> reply; None: nothing ever comes


@dataclass
class Clock:
    """A time that passes only while somebody sleeps: no deadline is missed on a busy machine."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class LostError(Exception):
    """A handler raises it where the engine is to reply in the node's place; its text is the code."""


@dataclass(eq=False)
class InMemory:
    """Nodes by number; a message is answered when it is sent, its reply waits to be fetched."""

    handlers: Mapping[str, Handler]
    sent: list[tuple[str, str]] = field(default_factory=list)  # node, kind of message
    said: list[set[str]] = field(default_factory=list)  # the words of every reply, not their values
    waiting: dict[str, Reply] = field(default_factory=dict)

    def nodes(self) -> set[str]:
        return set(self.handlers)

    def send(self, kind: str, messages: Mapping[str, Words], *, expires: float) -> dict[str, str]:
        tickets = {}
        for node, words in messages.items():
            ticket = f"message-{len(self.sent)}"
            tickets[ticket] = node
            self.sent.append((node, kind))
            try:
                reply = self.handlers[node](kind, words)
            except LostError as lost:
                self.waiting[ticket] = Reply(ticket, {}, str(lost))
                continue
            if reply is not None:
                self.said.append(set(reply))
                self.waiting[ticket] = Reply(ticket, reply)
        return tickets

    def replies(self, tickets: Collection[str]) -> list[Reply]:
        return [self.waiting.pop(ticket) for ticket in tickets if ticket in self.waiting]
