"""Messages to nodes and their answers, as they come, with time limits.

Flower's own `send_and_receive` looks every three seconds and forgets who did not answer. Answers
are told apart by the message they reply to: an error reply does not carry its node's number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from flwr.app import Message
from flwr.serverapp import Grid

from pace.runtimes.flower.records import Words, pack, unpack

LOOK, LIST = 0.2, 2.0  # seconds between looks for answers, and for nodes that joined or left
PAUSE = 10.0  # seconds before a node whose answer was lost is asked again
SILENT = "no-answer"
FINAL = (1, 2, 6, 7)  # Flower's errors that asking again does not mend: the app cannot run there


@dataclass(frozen=True, eq=False)
class Answer:
    """What a node replied. Where Flower replied in its place, `lost` says so: it may be asked again."""

    node: int
    words: Words
    lost: str
    seconds: float


def ask(
    grid: Grid,
    kind: str,
    due: Callable[[set[int]], Mapping[int, Words]],
    *,
    until: float,
    patience: float,
) -> Iterator[Answer | None]:
    """Answers until the moment `until`, and None after each look, when the caller may stop.

    `due` is told who is connected and says whom to ask what. Nobody is asked while an earlier
    message to it may still be answered, which is for `patience` seconds.
    """
    sent: dict[str, tuple[int, float]] = {}  # message -> its node, and when
    resting: dict[int, float] = {}  # node -> when its answer was lost
    listed = float("-inf")
    over = False
    while not over:
        now = time.monotonic()
        over = now >= until  # then one last look: answers may have come since the one before
        if not over and now - listed >= LIST:
            listed = now
            busy = {node for node, _ in sent.values()}
            wanted = {
                node: words
                for node, words in due(set(grid.get_node_ids())).items()
                if node not in busy and now - resting.get(node, float("-inf")) >= PAUSE
            }
            ttl = max(1.0, min(patience, until - now))
            sent |= _push(grid, f"query.{kind}", wanted, ttl=ttl)
        for reply in grid.pull_messages(list(sent)) if sent else ():
            node, when = sent.pop(reply.metadata.reply_to_message_id)
            answer = _answer(node, reply, time.monotonic() - when)
            if answer.lost:
                resting[node] = time.monotonic()
            yield answer
        yield None
        if not over:
            time.sleep(LOOK)
    for node, when in sent.values():
        yield Answer(node, {}, SILENT, time.monotonic() - when)


def _push(
    grid: Grid, kind: str, wanted: Mapping[int, Words], *, ttl: float
) -> dict[str, tuple[int, float]]:
    messages = [Message(pack(words), node, kind, ttl=ttl) for node, words in wanted.items()]
    numbers = list(grid.push_messages(messages)) if messages else []
    now = time.monotonic()
    return {number: (node, now) for number, node in zip(numbers, wanted, strict=True) if number}


def _answer(node: int, reply: Message, seconds: float) -> Answer:
    if not reply.has_error():
        return Answer(node, unpack(reply.content), "", seconds)
    # Its text was written by somebody else's machine: only the number is kept.
    code = f"flower-{reply.error.code}"
    if reply.error.code in FINAL:
        return Answer(node, {"code": code}, "", seconds)
    return Answer(node, {}, code, seconds)
