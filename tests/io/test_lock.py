import os
import subprocess
import sys
from pathlib import Path

import pytest

from pace.errors import BusyError
from pace.io import lock


@pytest.mark.fault(40)
def test_one_at_a_time_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / ".mine.local.lock"
    with lock.held(path, "another fit is at work on mine.local"):
        assert path.stat().st_mode & 0o777 == 0o600
        with (
            pytest.raises(BusyError, match=r"another fit is at work on mine\.local: wait"),
            lock.held(path, "another fit is at work on mine.local"),
        ):
            pass
        assert path.exists()
    assert list(tmp_path.iterdir()) == []
    with lock.held(path, "another fit is at work on mine.local"):
        pass


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    code = (
        "import os, sys; from pathlib import Path; from pace.io import lock\n"
        "with lock.held(Path(sys.argv[1]), 'x'): os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == 9
    assert path.exists()
    with lock.held(path, "x"):
        pass
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
    with lock.held(path, "x"):
        assert len(opened) == 2
        with pytest.raises(BusyError), lock.held(path, "x"):
            pass
