"""Messages between server and nodes, over any engine: what they say, and who is asked when and again.

    ask for the upload   upload      {job}
    the upload           its reply   {code: "ok", name, payload}  or  {code}
    the return           return      {job, payload, roll}
    acknowledgement      its reply   nothing  or  {code}

The payload is a frame as it would lie in a file, the roll (see `jobs.roll`) says who was in. An
acknowledgement is empty: a receiver gives no feedback. What went wrong travels as a fixed code; its text
stays in the log of the machine where it happened.

An engine carries messages and promises nothing: it may be silent, slow, fail for a while, give a reply
twice or one that nobody waits for. `Post` keeps to what was sent, and to when each message expires.
"""

import hashlib
import json
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, islice
from typing import Any, NamedTuple, Protocol, TypedDict, cast

from pace.errors import FileError, FormatError, PaceError
from pace.io import shown, untrusted

UPLOAD, RETURN = "upload", "return"  # kinds of messages
OK, FAILED, TOO_SLOW, SILENT, EXPIRED = "ok", "failed", "too-slow", "no-answer", "expired"
LONGEST_TEXT = 64  # characters of a text in a message
PARTS = ("payload", "roll")  # the words in bytes
HEAD = 4096  # bytes of an encoded message before its parts
COLOUR = re.compile(r"\x1b\[[0-9;]*m")

LOOK, LIST = 0.2, 2.0  # seconds between looks for answers, and for nodes that joined or left
CROWD = 50  # messages out; above it looks are rarer, since each names all of them
BATCH = 32  # messages that are made and sent at once
GRACE = 2.0  # seconds that an engine has to say itself that a message expired
FAILING = 5.0  # seconds before a site tries an engine again that failed
PAUSE = 10.0  # seconds before a node whose answer was lost is asked again
MENDING, LONGEST = 15.0, 240.0  # the same for one that refused, twice as long each time


class EngineError(PaceError, code="engine"):
    """The engine that carries a round's messages is gone."""


class FlowerError(EngineError, code="flower"):
    """What Flower's command said when it could not do what it was asked for."""


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
        word, kind = words.get(key), bytes if key in PARTS else str
        short = not isinstance(word, str) or (len(word) <= LONGEST_TEXT and word.isprintable())
        if isinstance(word, kind) and short:
            known[key] = word
    return cast(Words, known)


def encode_words(kind: str, words: Words, ticket: str = "") -> bytes:
    """A message as bytes, for engines that carry bytes: a line of JSON, then payload and roll.

    The line has the SHA-256 of what follows, so a message that is half there is not taken for one.
    """
    parts: dict[str, bytes] = {name: words[name] for name in PARTS if name in words}  # type: ignore[literal-required]
    body = b"".join(parts.values())
    head: dict[str, object] = {key: word for key, word in words.items() if key not in PARTS}
    head |= {name: len(part) for name, part in parts.items()}
    head |= {"kind": kind, "ticket": ticket, "sha256": hashlib.sha256(body).hexdigest()}
    return json.dumps(head).encode() + b"\n" + body


def decode_words(content: bytes) -> tuple[str, Words, str]:
    """Kind, words and ticket of such bytes; FormatError if they are anything else, or not all there."""
    line, newline, start = content[:HEAD].partition(b"\n")
    body = start + content[HEAD:]
    try:
        head = untrusted.json(line)
        sizes = {name: int(head[name]) for name in PARTS if name in head}
        whole = head.pop("sha256") == hashlib.sha256(body).hexdigest()
        if (
            not newline
            or not whole
            or sum(sizes.values()) != len(body)
            or min([0, *sizes.values()])
        ):
            raise ValueError("it is damaged, or not all there yet")
        for name, size in sizes.items():
            head[name], body = body[:size], body[size:]
        return str(head["kind"]), known_words(head), str(head["ticket"])
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        text = f"{len(content):,} bytes are no message: {str(error)[:100]}"
        raise FormatError(text) from None


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
    """The server's side of an engine: all that the round needs of a network.

    An `OSError` is an engine that fails for now: the round shows it and goes on. An `EngineError` is
    one that is gone: the round ends with what it has. One that should not be asked so often may have
    `look`, the seconds between two looks for replies.
    """

    def nodes(self) -> set[str]:
        """Who is connected, by any text that names it."""
        ...

    def send(self, kind: str, messages: Mapping[str, Words], *, expires: float) -> dict[str, str]:
        """Send each node its message, to be answered within `expires` seconds; ticket -> node."""
        ...

    def replies(self, tickets: Collection[str]) -> Iterable[Reply]:
        """Replies to these that have come since the last look."""
        ...


class Letter(NamedTuple):
    """A message as a site receives it; `ticket` is whatever its inbox knows it by."""

    kind: str
    words: Words
    ticket: Any


class Inbox(Protocol):
    """The site's side of an engine that is asked for messages; an `OSError` is survived here too."""

    def letters(self) -> Iterable[Letter]:
        """Messages that wait for an answer."""
        ...

    def reply(self, letter: Letter, words: Words) -> None:
        """Send the answer."""
        ...


Respond = Callable[[str, Words], Words]


def answer_letters(inbox: Inbox, respond: Respond, *, once: bool = False) -> int:
    """A site's loop, as long as this runs; `once`: what is here now. How many were answered."""
    count, failing = 0, ""
    while True:
        try:
            for letter in inbox.letters():
                inbox.reply(letter, respond(letter.kind, letter.words))
                count += 1
            failing = ""
        except OSError as error:
            if once:
                raise
            if failing != (failing := f"{error}"):
                log(f"messages cannot be fetched or answered now, and are tried again: {error}")
            time.sleep(FAILING)
        if once:
            return count
        time.sleep(LOOK)


class Sent(NamedTuple):
    """A message that is out."""

    node: str
    kind: str
    at: float
    until: float


@dataclass(eq=False)
class Post:
    """Messages that are out over an engine, and the first reply to each."""

    exchange: Exchange
    failing: Callable[[str], None]  # told why the engine fails, and nothing when it works again
    out: dict[str, Sent] = field(default_factory=dict)  # by ticket
    overdue: dict[str, Sent] = field(default_factory=dict)  # expired; an answer still counts
    trouble: dict[str, str] = field(default_factory=dict)  # step -> why it fails now

    def nodes(self) -> set[str]:
        online: set[str] = set()
        with self._surviving("nodes"):
            online |= self.exchange.nodes()
        return online

    def send(self, kind: str, messages: Mapping[str, Words], expires: float) -> None:
        with self._surviving("send"):
            tickets = self.exchange.send(kind, messages, expires=expires)
            now = time.monotonic()
            for ticket, node in tickets.items():
                self.overdue.pop(ticket, None)
                self.out[ticket] = Sent(node, kind, now, now + expires)

    def replies(self) -> Iterator[tuple[Sent, Reply]]:
        """Replies that came, and one for each message that expired; none twice."""
        with self._surviving("replies"):
            tickets = [*self.out, *self.overdue]
            for reply in self.exchange.replies(tickets) if tickets else ():
                expected = reply.ticket in self.out or not reply.lost
                held = self.out if reply.ticket in self.out else self.overdue
                if (sent := held.pop(reply.ticket, None)) and expected:
                    yield sent, reply
        late = time.monotonic() - GRACE
        for ticket in [ticket for ticket, sent in self.out.items() if sent.until <= late]:
            self.overdue[ticket] = sent = self.out.pop(ticket)
            yield sent, Reply(ticket, {}, EXPIRED)

    @contextmanager
    def _surviving(self, step: str) -> Iterator[None]:
        before = list(self.trouble.values())
        try:
            yield
            self.trouble.pop(step, None)
        except OSError as error:
            self.trouble[step] = str(error)
        if before != (now := list(self.trouble.values())):
            self.failing(now[0] if now else "")


class Answer(NamedTuple):
    """What a node replied after so many seconds, or that its reply was `lost`."""

    node: str
    kind: str
    words: Words
    lost: str
    seconds: float


def ask(
    exchange: Exchange,
    due: Callable[[set[str]], Mapping[str, str]],
    words: Callable[[str, str], Words],
    *,
    seconds: float,
    patience: float,
    failing: Callable[[str], None] = log,
) -> Iterator[Answer | None]:
    """Ask many nodes: answers for so many seconds, and None after each look for them.

    Of those connected, `due` says whom to ask which kind of question, and `words` the question, when it
    is asked: no more than a batch is held. An answer has `patience` seconds; after a message that
    expired, twice as many.
    """
    post, look = Post(exchange, failing), getattr(exchange, "look", LOOK)
    rested: dict[tuple[str, str], float] = {}  # node and kind -> when it may be asked again
    expired, answered = Counter[str](), Counter[str]()
    until, listed, over = time.monotonic() + seconds, float("-inf"), False
    while not over:
        now = time.monotonic()
        over = now >= until  # then one last look: answers may have come since the last
        if not over and now - listed >= LIST:
            listed = now
            busy = {sent.node for sent in post.out.values()}
            wanted = [
                (expired[node], kind, node)
                for node, kind in due(post.nodes()).items()
                if node not in busy and now >= rested.get((node, kind), now)
            ]
            for (times, kind), group in groupby(sorted(wanted), lambda asked: asked[:2]):
                expires = max(1.0, min(patience * 2**times, until - now))
                while batch := {node: words(node, kind) for *_, node in islice(group, BATCH)}:
                    post.send(kind, batch, expires)
        for sent, reply in post.replies():
            now, rest = time.monotonic(), PAUSE
            if reply.lost:
                expired[sent.node] += now >= sent.until
            else:
                rest = min(MENDING * 2 ** answered[sent.node], LONGEST)
                answered[sent.node] += 1
            rested[sent.node, sent.kind] = now + rest
            said = known_words(reply.words)
            yield Answer(sent.node, sent.kind, said, reply.lost, now - sent.at)
        yield None
        if not over:
            time.sleep(look * max(1.0, len(post.out) / CROWD))
    for sent in post.out.values():
        yield Answer(sent.node, sent.kind, {}, SILENT, time.monotonic() - sent.at)
