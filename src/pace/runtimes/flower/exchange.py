"""Flower's grid as an `Exchange`.

Flower's own `send_and_receive` looks every three seconds and forgets who did not answer. Replies
are told apart by the message they reply to: an error reply does not carry its node's number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from flwr.app import Message
from flwr.serverapp import Grid

from pace.runtimes.flower.records import pack, unpack
from pace.runtimes.network.exchange import Reply
from pace.runtimes.network.messages import Words

FINAL = (1, 2, 6, 7)  # Flower's errors that asking again does not mend: the app cannot run there


@dataclass(frozen=True, eq=False)
class GridExchange:
    """The nodes of one run."""

    grid: Grid

    def nodes(self) -> set[int]:
        return set(self.grid.get_node_ids())

    def send(self, kind: str, messages: Mapping[int, Words], *, expires: float) -> dict[str, int]:
        made = [
            Message(pack(words), node, f"query.{kind}", ttl=expires)
            for node, words in messages.items()
        ]
        tickets = self.grid.push_messages(made)
        return {ticket: node for ticket, node in zip(tickets, messages, strict=True) if ticket}

    def replies(self, tickets: Collection[str]) -> Iterator[Reply]:
        for reply in self.grid.pull_messages(list(tickets)):
            ticket = reply.metadata.reply_to_message_id
            if not reply.has_error():
                yield Reply(ticket, unpack(reply.content))
                continue
            # Its text was written by somebody else's machine: only the number is kept.
            code = f"flower-{reply.error.code}"
            if reply.error.code in FINAL:
                yield Reply(ticket, {"code": code})
            else:
                yield Reply(ticket, {}, code)
