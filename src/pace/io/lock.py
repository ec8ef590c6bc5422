"""One process at a time: a lock file that is gone when its holder is."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pace.errors import BusyError

LOOK = 0.5  # seconds between two tries


@contextmanager
def held(path: Path, busy: str, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock file `path` while the block runs.

    The lock is the operating system's: a killed process holds nothing, whatever file it left. The file
    says which process holds it.

    Args:
        busy: who else is at work on what, as in "another server is at work on x.journal".
        patience: seconds to wait for a holder that is about to end.

    Raises:
        BusyError: another process holds it; nothing was changed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = _patiently_locked(path, busy, time.monotonic() + patience)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is held: nobody else's is removed
        os.close(handle)


def _patiently_locked(path: Path, busy: str, until: float) -> int:
    while True:
        try:
            return _locked(path, busy)
        except BusyError:
            if time.monotonic() >= until:
                raise
        time.sleep(LOOK)


def _locked(path: Path, busy: str) -> int:
    """The descriptor of the lock file that stands at `path` now, locked."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                os.truncate(handle, 0)  # an earlier holder that was killed is in it
                os.write(handle, b"%d" % os.getpid())
                return handle
        except BlockingIOError:
            holder = os.pread(handle, 20, 0).decode(errors="replace")
            os.close(handle)
            who = f" (process {holder})" if holder.isdecimal() else ""
            raise BusyError(
                f"{busy}{who}: wait until it has ended, or end it, then run this again"
            ) from None
        except FileNotFoundError:  # its holder has removed it meanwhile: another try
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
