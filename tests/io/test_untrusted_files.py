import os
import socket
import threading
from pathlib import Path

import pytest

from pace.errors import FileError
from pace.io import untrusted


@pytest.mark.fault(30)
@pytest.mark.parametrize("kind", ["fifo", "socket", "device", "folder"])
def test_only_regular_files_are_read_and_nothing_waits(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    with socket.socket(socket.AF_UNIX) as door:
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "socket":
            door.bind(str(path))
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:
            path.mkdir()
        ended: list[Exception] = []

        def read() -> None:
            try:
                untrusted.read(path, 10)
            except OSError as error:
                ended.append(error)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        thread.join(5)
    assert len(ended) == 1


@pytest.mark.fault(30)
def test_a_fifo_with_a_writer_is_refused_too(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    handle = os.open(tmp_path / "x", os.O_RDWR)
    try:
        with pytest.raises(OSError, match="not a regular file"):
            untrusted.read(tmp_path / "x", 10)
    finally:
        os.close(handle)


@pytest.mark.fault(29)
def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with path.open("wb") as opened:
        opened.truncate(2**40)  # a terabyte of nothing
    with pytest.raises(FileError, match=r"1,099,511,627,776 bytes, expected at most 1,000"):
        untrusted.read(path, 1000)
    assert untrusted.read_head(path, 4) == bytes(4)
    path.write_bytes(b"ten bytes!")
    assert untrusted.read(path, 10) == b"ten bytes!"
    assert untrusted.same(path, b"ten bytes!")
    assert not untrusted.same(path, b"ten bytes")
