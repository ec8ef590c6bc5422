"""The fixed codes by which a node says what became of a message, and the one place they are made."""

from __future__ import annotations

import sys
import traceback
from datetime import datetime

from pace.errors import FileError, PaceError
from pace.io.text import shown

OK, FAILED, TOO_SLOW = "ok", "failed", "too-slow"


def log(text: str) -> None:
    """A line with the time in this machine's log; nothing of it travels."""
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    print(f"{now} pace: {text}", file=sys.stderr, flush=True)


def code_of(error: Exception) -> str:
    """The code that may travel. The error's text stays here, in this machine's log."""
    if isinstance(error, PaceError | OSError):
        code = error.code if isinstance(error, PaceError) else FileError.code
        log(f"{code}: {shown(error)}")
        return code
    traceback.print_exception(error)
    return FAILED
