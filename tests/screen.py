"""A terminal of a test's own, read to its end.

One `os.read` is not enough: the kernel hands on what was written in its own time and in parts, and
a writer waits when nobody reads.
"""

from __future__ import annotations

import os
from contextlib import suppress
from threading import Thread


class Screen:
    """What is written to `slave` until everybody has closed it."""

    def __init__(self) -> None:
        self._master, self.slave = os.openpty()
        self._parts: list[bytes] = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):  # EIO: the other end is closed and everything has been read
            while part := os.read(self._master, 1 << 16):
                self._parts.append(part)

    def text(self) -> str:
        """All of it, once `slave` is closed here and in every process that was given it."""
        self._reader.join()
        os.close(self._master)
        return b"".join(self._parts).decode()
