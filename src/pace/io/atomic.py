"""Files and folders that are whole or absent: written beside their place, then moved into it."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PART = ".part"  # how the names of unfinished writes end


def write(path: Path, content: bytes, *, private: bool = False) -> None:
    """Put `content` at `path`, durably; whatever stood there stays until the new file is complete."""
    name = _beside(path, content, private)
    try:
        with _named(path):
            os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    settle(path.parent)


def create(path: Path, content: bytes, *, private: bool = False, settled: bool = True) -> bool:
    """The same where nothing stands yet; False, and nothing changed, where something does.

    With `settled=False` the content is durable but its name is only after `settle` of the folder,
    which is then called once for many files. Of several writers one wins. A disk without hard links
    (FAT) cannot decide a race; there the second look is all there is.
    """
    if path.exists():
        return False
    name = _beside(path, content, private)
    try:
        os.link(name, path)
    except FileExistsError:
        return False
    except OSError:
        if path.exists():
            return False
        with _named(path):
            os.replace(name, path)
    finally:
        if os.path.exists(name):
            os.unlink(name)
    if settled:
        settle(path.parent)
    return True


def folder(path: Path, files: Mapping[str, bytes], *, private: bool = False) -> None:
    """Put a folder with these files at `path`, where nothing stands yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _named(path):
        made = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=PART))
    try:
        for name, content in files.items():
            write(made / name, content, private=private)
        os.chmod(made, 0o700 if private else 0o777 & ~_umask())
        with _named(path):
            os.rename(made, path)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    settle(path.parent)


def sweep(path: Path) -> None:
    """Remove what a killed write of `path` left beside it; of a folder, what is left inside."""
    inside = path.is_dir() and not path.name.endswith(PART)
    for place, start in ((path.parent, f".{path.name}."), *([(path, ".")] if inside else [])):
        if not place.is_dir():
            continue
        for left in place.iterdir():
            if left.name.startswith(start) and left.name.endswith(PART):
                shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)


def settle(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _beside(path: Path, content: bytes, private: bool) -> str:
    """A complete, durable file beside `path`; its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _named(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=PART)
    try:
        with _named(path), os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o600 if private else 0o666 & ~_umask())
    except BaseException:
        os.unlink(name)
        raise
    return name


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """An error is of the file that was asked for, not of the one written beside it."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
