"""A shared folder as an engine: a network share, an SFTP mount, a directory that is synchronised.

    SHARE/NAME/ask      what the server asks this site, one message at a time
    SHARE/NAME/answer   the site's answer, with the ticket of what it answers

A site's folder is its id: give each site the right to write its own only. Neither side needs to run all
the time: messages stay, a server that starts again knows its question by the ticket in `ask`, and a site
that looks every hour finds it. File systems that move files unlike a local disk do no harm: a message
has the SHA-256 of its parts, and one that is not all there is looked at again.
"""

import os
import signal
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from secrets import token_hex

from pace.errors import PaceError
from pace.io import atomic, untrusted
from pace_network.exchange import (
    Letter,
    Reply,
    Words,
    answer_letters,
    decode_words,
    encode_words,
    log,
)
from pace_network.node import Node
from pace_network.site_steps import respond

ASK, ANSWER = "ask", "answer"
LARGEST = 2**30  # bytes of a message; admission knows the exact size of an upload


@dataclass(eq=False)
class SharedFolder:
    """The server's side."""

    share: Path
    largest: int = LARGEST
    look: float = 1.0  # seconds between looks: each asks the share for every answer that is awaited
    asked: dict[str, str] = field(default_factory=dict)  # ticket -> node
    read: dict[str, tuple[int, ...]] = field(default_factory=dict)  # node -> stat of its answer
    given: set[str] = field(default_factory=set)  # tickets whose replies were given

    def nodes(self) -> set[str]:
        with os.scandir(self.share) as entries:
            return {
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            }

    def send(self, kind: str, messages: Mapping[str, Words], *, expires: float) -> dict[str, str]:
        tickets, trouble = {}, None
        for node, words in messages.items():
            path = self.share / node / ASK
            before = _read(path, self.largest)
            if before and before[:2] == (kind, words) and before.ticket not in self.given:
                ticket = before.ticket  # it was asked by an earlier run, and may be answered
            else:
                ticket = token_hex(8)
                try:
                    _write(path, encode_words(kind, words, ticket))
                except OSError as error:  # one site's folder must not stop the others
                    trouble = error
                    continue
            self.asked[ticket] = tickets[ticket] = node
        if trouble and not tickets:
            raise trouble
        return tickets

    def replies(self, tickets: Collection[str]) -> Iterator[Reply]:
        for node in {self.asked[ticket] for ticket in tickets if ticket in self.asked}:
            path = self.share / node / ANSWER
            with suppress(OSError):
                found = os.stat(path, follow_symlinks=False)
                seen = (found.st_mtime_ns, found.st_size, found.st_ino)
                if self.read.get(node) == seen or (letter := _read(path, self.largest)) is None:
                    continue
                self.read[node] = seen
                if letter.ticket in tickets and self.asked[letter.ticket] == node:
                    self.given.add(letter.ticket)
                    yield Reply(letter.ticket, letter.words)


@dataclass(frozen=True, kw_only=True)
class FolderNode(Node):
    """A site's side: what its node.toml says."""

    share: Path  # the shared folder, as this machine sees it

    @property
    def mine(self) -> Path:
        return self.share / self.name

    def letters(self) -> Iterator[Letter]:
        """What the server asks, unless it is answered."""
        self.mine.stat()  # OSError while the share is not there
        letter, answer = _read(self.mine / ASK), _read(self.mine / ANSWER)
        if letter and (answer is None or answer.ticket != letter.ticket):
            yield letter

    def reply(self, letter: Letter, words: Words) -> None:
        """Answer it; the answer before is gone."""
        _write(self.mine / ANSWER, encode_words("reply", words, letter.ticket))

    def problems(self) -> list[str]:
        """What would keep this site from taking part."""
        found = super().problems()
        try:
            self.mine.mkdir(exist_ok=True)
            _write(self.mine / ".check", b"")
            (self.mine / ".check").unlink()
        except OSError as error:
            found.append(
                f"{self.mine} cannot be written to ({error.strerror}): {self.share} is shared?"
            )
        return found

    def run(self, *, once: bool = False) -> int:
        """Answer what is asked, until this process ends or, `once`, what is there; how many were."""
        self.mine.mkdir(exist_ok=True)
        if not once:
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # what it made is removed
            threading.Thread(target=forkserver.ensure_running, daemon=True).start()
            log(f"{self.name}: looks into {self.mine}")
        with atomic.held(self.folder / ".lock", f"another process is the node of {self.folder}"):
            return answer_letters(self, partial(respond, self), once=once)


def _read(path: Path, largest: int = LARGEST) -> Letter | None:
    """The message of a file that is there, and whole."""
    try:
        kind, words, ticket = decode_words(untrusted.read(path, largest))
    except (OSError, PaceError):
        return None
    return Letter(kind, words, ticket)


def _write(path: Path, content: bytes) -> None:
    """Whole or absent where the file system can; else as it is, and its reader waits for the rest.

    One process writes a file, so what lies beside it is of one that was killed.
    """
    try:
        atomic.sweep(path)
        atomic.write(path, content)
    except OSError:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o666), "wb") as file:
            file.write(content)
