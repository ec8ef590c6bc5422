"""Flower without its processes and sockets: a grid whose nodes answer in this process.

Flower makes messages only inside a run of its own; what it asks for is in a private module, and
this file is the only one that touches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from pace_network import site_steps
from pace_network.flower.tasks import letter, pack, unpack
from pace_network.node import Node

UNAVAILABLE = 5


@dataclass
class HomeGrid:
    """Nodes by number. `tamper` may change, replace or drop a reply."""

    nodes: Mapping[str, Node]
    tamper: Callable[[int, Message, Message], Message | None] = lambda node, asked, reply: reply
    sent: list[tuple[int, str]] = field(default_factory=list)  # node, kind of message
    words: list[dict[str, Any]] = field(default_factory=list)  # of every reply
    replies: dict[str, Message] = field(default_factory=dict)

    def __post_init__(self) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 7, 1, 1

    def get_node_ids(self) -> list[int]:
        return list(map(int, self.nodes))

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        numbers = []
        for message in messages:
            node, number = message.metadata.dst_node_id, f"message-{len(self.sent)}"
            message.metadata.__dict__["_message_id"] = number
            self.sent.append((node, message.metadata.message_type))
            reply = self.tamper(node, message, answer(message, self.nodes[str(node)]))
            if reply is not None:
                self.replies[number] = reply
                self.words.append({} if reply.has_error() else dict(unpack(reply.content)))
            numbers.append(number)
        return numbers

    def pull_messages(self, numbers: Iterable[str]) -> list[Message]:
        return [self.replies.pop(number) for number in list(numbers) if number in self.replies]


def answer(message: Message, node: Node) -> Message:
    """What the node replies."""
    asked = letter(message)
    reply = site_steps.answer_message(node, asked.kind, asked.words)
    return Message(pack(reply), reply_to=message)


def asking(words: Mapping[str, Any], kind: str, node: int = 11) -> Message:
    """A message of the server's, also one that ours would never send."""
    from flwr.app import ConfigRecord

    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 7, 1, 1
    message = Message(RecordDict({"pace": ConfigRecord(dict(words))}), node, f"query.{kind}")
    message.metadata.__dict__["_message_id"] = "message"
    return message


def unavailable(asked: Message) -> Message:
    """What Flower replies in place of a node that is gone; it does not carry the node's number."""
    reply = Message(Error(UNAVAILABLE, "somebody's text"), reply_to=asked)
    reply.metadata.__dict__["_src_node_id"] = 1
    return reply
