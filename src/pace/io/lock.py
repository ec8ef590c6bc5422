"""One process at a time: a lock file that is gone when its holder is."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pace.errors import BusyError


@contextmanager
def held(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock file `path` while the block runs.

    The lock is the operating system's: a killed process holds nothing, whatever file it left.

    Args:
        busy: who else is at work on what, as in "another server is at work on x.journal".

    Raises:
        BusyError: another process holds it; nothing was changed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = _locked(path, busy)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is held: nobody else's is removed
        os.close(handle)


def _locked(path: Path, busy: str) -> int:
    """The descriptor of the lock file that stands at `path` now, locked."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        except BlockingIOError:
            os.close(handle)
            raise BusyError(f"{busy}: wait until it has ended, then run this again") from None
        except FileNotFoundError:  # its holder has removed it meanwhile: another try
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
