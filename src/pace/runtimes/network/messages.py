"""What the server and a node say to each other: words of fixed kinds and at most one frame of ours.

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
import traceback
from collections.abc import Mapping
from datetime import datetime

from pace.errors import FileError, PaceError
from pace.io.text import shown

UPLOAD, RETURN = "upload", "return"  # kinds of messages
KINDS = {"job": str, "code": str, "name": str, "payload": bytes, "roll": bytes}
OK, FAILED, TOO_SLOW = "ok", "failed", "too-slow"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")

Words = dict[str, str | bytes]


def known_words(words: Mapping[str, object]) -> Words:
    """The words of the kinds above; any other is ignored."""
    return {key: words[key] for key, kind in KINDS.items() if isinstance(words.get(key), kind)}  # type: ignore[misc]


def word_text(words: Words, key: str) -> str:
    """A short printable word of a message, or nothing."""
    word = words.get(key, "")
    return word if isinstance(word, str) and len(word) <= 64 and word.isprintable() else ""


def word_bytes(words: Words, key: str) -> bytes:
    """Bytes of a message, or none."""
    payload = words.get(key, b"")
    return payload if isinstance(payload, bytes) else b""


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
