"""A folder in memory for readers of files, and the one outcome beside a result: a `PaceError`."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from pace.errors import PaceError

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
FOLDER = Path(tempfile.mkdtemp(prefix="pace-fuzz-", dir=MEMORY))


def placed(data: bytes, name: str) -> Path:
    path = FOLDER / name
    with open(path, "wb", buffering=0) as opened:
        opened.write(data)
    return path


def quiet(call: Callable[..., object], *given: object) -> None:
    try:
        call(*given)
    except PaceError:
        return


def written(write: Callable[[Path], None], suffix: str = "") -> bytes:
    """The bytes that `write` puts into a file."""
    path = FOLDER / f"seed-{len(os.listdir(FOLDER))}{suffix}"
    write(path)
    return path.read_bytes()
