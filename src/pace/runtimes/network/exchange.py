"""Messages between server and nodes, over any engine: what they say, and who is asked when and again.

    ask for the upload   upload      {job}
    the upload           its reply   {code: "ok", name, payload}  or  {code}
    the return           return      {job, payload, roll}
    acknowledgement      its reply   nothing  or  {code}

The payload is a frame as it would lie in a file, the roll (see `jobs.roll`) says who was in. An
acknowledgement is empty: a receiver gives no feedback. What went wrong travels as a fixed code; its text
stays in the log of the machine where it happened.
"""

from __future__ import annotations

import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice
from typing import NamedTuple, Protocol, TypedDict, cast

from pace.errors import FileError, PaceError
from pace.io import shown

UPLOAD, RETURN = "upload", "return"  # kinds of messages
OK, FAILED, TOO_SLOW, SILENT = "ok", "failed", "too-slow", "no-answer"
LONGEST_TEXT = 64  # characters of a text in a message
COLOUR = re.compile(r"\x1b\[[0-9;]*m")

LOOK, LIST = 0.2, 2.0  # seconds between looks for answers, and for nodes that joined or left
CROWD = 50  # messages out; above it looks are rarer, since each names all of them
BATCH = 32  # messages that are made and sent at once
PAUSE = 10.0  # seconds before a node whose answer was lost is asked again
MENDING, LONGEST = 15.0, 240.0  # the same for one that refused, twice as long each time


class Words(TypedDict, total=False):
    """The words of a message: short texts, and at most one payload and one roll."""

    job: str
    code: str
    name: str
    payload: bytes
    roll: bytes


def known_words(words: Mapping[str, object]) -> Words:
    """The words of another machine, without those of other names, types or lengths."""
    known = {}
    for key in ("job", "code", "name", "payload", "roll"):
        word, kind = words.get(key), bytes if key in ("payload", "roll") else str
        short = not isinstance(word, str) or (len(word) <= LONGEST_TEXT and word.isprintable())
        if isinstance(word, kind) and short:
            known[key] = word
    return cast(Words, known)


def log(line: str) -> None:
    """A line with the time in this machine's log; nothing of it travels, nor acts on a terminal."""
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    print(f"{now} pace: {shown(line)}", file=sys.stderr, flush=True)


def pass_on(lines: str) -> None:
    """Lines of a traceback or of Flower into the log; colours are dropped."""
    for line in COLOUR.sub("", lines).splitlines():
        print(shown(line), file=sys.stderr, flush=True)


def code_of(error: Exception) -> str:
    """The code that may travel, while the error's text goes to this machine's log."""
    if isinstance(error, PaceError | OSError):
        code = error.code if isinstance(error, PaceError) else FileError.code
        log(f"{code}: {error}")
        return code
    pass_on("".join(traceback.format_exception(error)))
    return FAILED


@dataclass(frozen=True, eq=False)
class Reply:
    """The reply to a message. Where the engine replied in the node's place, `lost` says why."""

    ticket: str
    words: Mapping[str, object]
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


class Answer(NamedTuple):
    """What a node replied after so many seconds, or that its reply was `lost`."""

    node: int
    words: Words
    lost: str
    seconds: float


def ask(
    exchange: Exchange,
    kind: str,
    due: Callable[[set[int]], set[int]],
    words: Callable[[int], Words],
    *,
    seconds: float,
    patience: float,
) -> Iterator[Answer | None]:
    """Ask many nodes one question: answers for so many seconds, and None after each look for them.

    Of those connected, `due` says whom to ask, and `words` what, when it is asked: no more than a batch
    is held. An answer has `patience` seconds; after a message that expired, twice as many.
    """
    out: dict[str, tuple[int, float, float]] = {}  # ticket -> node, when sent, when it expires
    rested: dict[int, float] = {}  # node -> when it may be asked again
    expired, answered = Counter[int](), Counter[int]()
    until, listed, over = time.monotonic() + seconds, float("-inf"), False
    while not over:
        now = time.monotonic()
        over = now >= until  # then one last look: answers may have come since the last
        if not over and now - listed >= LIST:
            listed = now
            idle = due(exchange.nodes()) - {node for node, _, _ in out.values()}
            wanted = [node for node in idle if now >= rested.get(node, now)]
            wanted.sort(key=lambda node: (expired[node], node))
            for times, group in groupby(wanted, lambda node: expired[node]):
                expires = max(1.0, min(patience * 2**times, until - now))
                while batch := {node: words(node) for node in islice(group, BATCH)}:
                    tickets = exchange.send(kind, batch, expires=expires)
                    sent = time.monotonic()
                    out |= {
                        ticket: (node, sent, sent + expires) for ticket, node in tickets.items()
                    }
        for reply in exchange.replies(list(out)) if out else ():
            now, (node, sent, late) = time.monotonic(), out.pop(reply.ticket)
            rest = PAUSE
            if reply.lost:
                expired[node] += now >= late
            else:
                rest = min(MENDING * 2 ** answered[node], LONGEST)
                answered[node] += 1
            rested[node] = now + rest
            yield Answer(node, known_words(reply.words), reply.lost, now - sent)
        yield None
        if not over:
            time.sleep(LOOK * max(1.0, len(out) / CROWD))
    for node, sent, _ in out.values():
        yield Answer(node, {}, SILENT, time.monotonic() - sent)
