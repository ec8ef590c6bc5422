"""Reading files from outside: only regular ones, never more than a stated number of bytes.

A FIFO would be waited for, a device has no end. The kind is asked of the open descriptor, so a file
that is swapped between a look and the opening gains nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from pace.errors import FileError, SizeError


def open_regular(path: Path) -> BinaryIO:
    """The file, open for reading bytes.

    Raises:
        OSError: it cannot be opened, or is a folder, FIFO, socket or device.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def size_of(opened: BinaryIO) -> int:
    """The bytes of an open file."""
    return os.fstat(opened.fileno()).st_size


def read(path: Path, limit: int) -> bytes:
    """All bytes of a file that has at most `limit` of them.

    Raises:
        OSError: as for `open_regular`.
        FileError: it is larger; nothing of it was read.
    """
    with open_regular(path) as opened:
        if (size := size_of(opened)) > limit:
            raise FileError(f"{path} has {size:,} bytes, expected at most {limit:,}")
        return opened.read(limit)


def read_exact(path: Path, size: int) -> bytes:
    """All bytes of a file whose size is known beforehand.

    Raises:
        SizeError: it has another size; nothing of it was read.
        FileError: it cannot be read.
    """
    try:
        with open_regular(path) as opened:
            if (found := size_of(opened)) != size:
                raise SizeError(f"{path.name} has {found:,} bytes, expected exactly {size:,}")
            return opened.read(size)
    except OSError as error:
        raise FileError(f"{path.name} cannot be read: {error.strerror}") from error


def read_head(path: Path, count: int) -> bytes:
    """The first bytes of a file, up to `count`."""
    with open_regular(path) as opened:
        return opened.read(count)


def same(path: Path, content: bytes) -> bool:
    """Whether a file holds exactly these bytes."""
    with open_regular(path) as opened:
        return size_of(opened) == len(content) and opened.read(len(content) + 1) == content
