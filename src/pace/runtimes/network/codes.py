"""The fixed codes by which a node says what became of a message, and the one place they are made."""

from __future__ import annotations

import re
import sys
import traceback
from datetime import datetime

from pace.errors import FileError, PaceError
from pace.io.text import shown

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
OK, FAILED, TOO_SLOW = "ok", "failed", "too-slow"


def log(text: str) -> None:
    """A line with the time in this machine's log; nothing of it travels, nor acts on a terminal."""
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    print(f"{now} pace: {shown(text)}", file=sys.stderr, flush=True)


def pass_on(text: str) -> None:
    """Lines of somebody else, of a traceback or of Flower, into the log; colours are dropped."""
    for line in COLOUR.sub("", text).splitlines():
        print(shown(line), file=sys.stderr, flush=True)


def code_of(error: Exception) -> str:
    """The code that may travel. The error's text stays here, in this machine's log."""
    if isinstance(error, PaceError | OSError):
        code = error.code if isinstance(error, PaceError) else FileError.code
        log(f"{code}: {error}")
        return code
    pass_on("".join(traceback.format_exception(error)))
    return FAILED
