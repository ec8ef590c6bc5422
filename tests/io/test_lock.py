import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from pace.errors import BusyError
from pace.io import atomic


@pytest.mark.fault(40)
def test_one_at_a_time_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / ".mine.local.lock"
    with atomic.held(path, "another fit is at work on mine.local"):
        assert path.stat().st_mode & 0o777 == 0o600
        with (
            pytest.raises(BusyError, match=rf"work on mine\.local \(process {os.getpid()}\): wait"),
            atomic.held(path, "another fit is at work on mine.local"),
        ):
            pass
        assert path.exists()
    assert list(tmp_path.iterdir()) == []
    with atomic.held(path, "another fit is at work on mine.local"):
        pass


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    code = (
        "import os, sys; from pathlib import Path; from pace.io import atomic\n"
        "with atomic.held(Path(sys.argv[1]), 'x'): os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == 9
    assert path.exists()
    left = path.read_text()
    path.write_text(left * 3)  # longer than the next holder's number
    with atomic.held(path, "x"):
        assert path.read_text() == str(os.getpid()) != left
    assert not path.exists()


def test_a_holder_that_is_about_to_end_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, now = tmp_path / ".lock", [0.0]
    first = ExitStack()
    first.enter_context(atomic.held(path, "first"))
    monkeypatch.setattr("pace.io.atomic.time.monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        now[0] += seconds
        if now[0] >= 30:
            first.close()

    monkeypatch.setattr("pace.io.atomic.time.sleep", sleep)
    with pytest.raises(BusyError, match="second"), atomic.held(path, "second", 10):
        pass
    assert 10 <= now[0] < 30
    with atomic.held(path, "third", 60):
        assert now[0] == 30
    assert not path.exists()


def test_a_lock_file_that_was_removed_meanwhile_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our opening it and our locking it, its holder ends and takes it away."""
    path, real = tmp_path / ".lock", os.open
    opened = []

    def slow(place: Path, *given: int, **named: int) -> int:
        handle = real(place, *given, **named)
        opened.append(handle)
        if len(opened) == 1:
            path.unlink()
        return handle

    monkeypatch.setattr(os, "open", slow)
    with atomic.held(path, "x"):
        assert len(opened) == 2
        with pytest.raises(BusyError), atomic.held(path, "x"):
            pass
