"""Files and folders that are whole or absent, a lock for one process at a time, a user's own folder.

A file is written beside its place, made durable, then moved into it.
"""

import fcntl
import glob
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from errno import EEXIST
from pathlib import Path
from secrets import token_hex
from typing import IO

from pace.errors import BusyError

PART = ".part"  # how the names of unfinished writes end


def state_folder() -> Path:
    """What commands remember: $PACE_STATE, or `pace` in $XDG_STATE_HOME or ~/.local/state."""
    if chosen := os.environ.get("PACE_STATE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "pace"


def write(path: Path, content: bytes, *, private: bool = False) -> None:
    """Put `content` at `path`, durably; an earlier file stays until the new one is complete."""
    with written(path, private=private) as file:
        file.write(content)


def create(path: Path, content: bytes, *, private: bool = False, settled: bool = True) -> bool:
    """The same where there is nothing yet, of several writers by one; False where there is something.

    With `settled=False` the name is durable only after `settle` of the folder, once for many files.
    """
    if path.exists():
        return False
    with _beside(path, private) as (file, name):
        file.write(content)
        _sync(file)
        try:
            os.link(name, path)
        except FileExistsError:
            return False
        except OSError:  # a disk without hard links (FAT) cannot decide a race
            if path.exists():
                return False
            os.replace(name, path)
    if settled:
        settle(path.parent)
    return True


def folder(
    path: Path, files: Mapping[str, bytes], *, private: bool = False, aside: Path | None = None
) -> None:
    """Put a folder with these files at `path`; what is there is moved `aside`, or there is nothing."""
    with new_folder(path, private=private, aside=aside) as staged:
        for name, content in files.items():
            write(staged / name, content, private=private)


@contextmanager
def new_folder(path: Path, *, private: bool = False, aside: Path | None = None) -> Iterator[Path]:
    """A folder to fill, which is put at `path` when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _named(path):
        if aside is None and path.exists():
            raise FileExistsError(EEXIST, "it already exists: choose another, or move it")
        staged = _part(path)
        staged.mkdir(0o700 if private else 0o777)
        try:
            yield staged
            if aside is not None:
                os.rename(path, aside)
            os.rename(staged, path)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
    settle(path.parent)


@contextmanager
def written(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """A file to write in parts, which is put at `path` when it is complete."""
    with _beside(path, private) as (file, name):
        yield file
        _sync(file)
        os.replace(name, path)
    settle(path.parent)


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def sweep(path: Path) -> None:
    """Remove what a killed write of `path` left beside it; of a folder, what is left inside.

    In a shared folder others may have put links and files of such names there: a link is removed and
    not followed, and what may not be removed is left, since no name is used twice.
    """
    leftovers = list(path.parent.glob(f".{glob.escape(path.name)}.*{PART}"))
    if path.is_dir() and not path.name.endswith(PART):
        leftovers += path.glob(f".*{PART}")
    for leftover in leftovers:
        with suppress(PermissionError):
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover)
            else:
                leftover.unlink(missing_ok=True)


def settle(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def held(path: Path, busy: str, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock file `path`, waiting for another holder up to `patience` seconds.

    The lock is the operating system's: a killed process holds nothing. The file says who holds it; a
    BusyError begins with `busy`, such as "another server is at work on x.journal".
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = _locked(path, busy, time.monotonic() + patience)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is held: no other's is removed
        os.close(handle)


def _locked(path: Path, busy: str, until: float) -> int:
    """The descriptor of the file that is at `path` now, locked."""
    while True:
        with ExitStack() as stack:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            stack.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(handle), os.stat(path)):
                    os.truncate(handle, 0)  # an earlier holder that was killed is in it
                    os.write(handle, b"%d" % os.getpid())
                    stack.pop_all()
                    return handle
            except FileNotFoundError:  # its holder has removed it meanwhile: another try
                continue
            except BlockingIOError:
                if time.monotonic() >= until:
                    holder = os.pread(handle, 20, 0).decode(errors="replace")
                    process = f" (process {holder})" if holder.isdecimal() else ""
                    remedy = "wait until it has ended, or end it, then run this again"
                    raise BusyError(f"{busy}{process}: {remedy}") from None
                time.sleep(0.5)


@contextmanager
def _beside(path: Path, private: bool) -> Iterator[tuple[IO[bytes], Path]]:
    """A new file beside `path` and its name; it is removed if it is left there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _named(path):
        part = _part(path)
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file, part
        finally:
            part.unlink(missing_ok=True)


def _part(path: Path) -> Path:
    """A new name beside `path`, which nothing else has."""
    return path.parent / f".{path.name}.{token_hex(4)}{PART}"


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors name the file that was asked for, not the one written beside it."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise
