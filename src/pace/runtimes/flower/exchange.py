"""Our messages inside Flower's: the server's grid as an `Exchange`, and a node's answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from pace.runtimes.network.exchange import Reply
from pace.runtimes.network.messages import Words, known_words

RECORD = "pace"
QUERY = "query."  # Flower's kind of message that our kinds are names of
FINAL = (1, 2, 6, 7)  # Flower's errors that asking again does not mend: nothing can run there


def pack(words: Words) -> RecordDict:
    return RecordDict({RECORD: ConfigRecord(dict(words))} if words else {})


def unpack(content: RecordDict) -> Words:
    record = content.get(RECORD)
    return known_words(record) if isinstance(record, ConfigRecord) else {}


def reply_message(message: Message, respond: Callable[[str, Words], Words]) -> Message:
    """A node's reply to a message of the server."""
    kind = message.metadata.message_type.removeprefix(QUERY)
    words = unpack(message.content) if message.has_content() else {}
    return Message(pack(respond(kind, words)), reply_to=message)


@dataclass(frozen=True, eq=False)
class GridExchange:
    """The nodes of one run.

    Flower's own `send_and_receive` looks every three seconds and forgets who did not answer. Replies
    are told apart by the message they reply to: an error reply does not carry its node's number.
    """

    grid: Grid

    def nodes(self) -> set[int]:
        return set(self.grid.get_node_ids())

    def send(self, kind: str, messages: Mapping[int, Words], *, expires: float) -> dict[str, int]:
        packed = [
            Message(pack(words), node, f"{QUERY}{kind}", ttl=expires)
            for node, words in messages.items()
        ]
        tickets = self.grid.push_messages(packed)
        return {ticket: node for ticket, node in zip(tickets, messages, strict=True) if ticket}

    def replies(self, tickets: Collection[str]) -> Iterator[Reply]:
        for reply in self.grid.pull_messages(list(tickets)):
            ticket = reply.metadata.reply_to_message_id
            if not reply.has_error():
                yield Reply(ticket, unpack(reply.content))
                continue
            # The error's text was written by another machine: only its number is kept.
            code = f"flower-{reply.error.code}"
            if reply.error.code in FINAL:
                yield Reply(ticket, {"code": code})
            else:
                yield Reply(ticket, {}, code)
