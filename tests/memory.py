"""How much memory a call takes at its peak, as the operating system counts it."""

from collections.abc import Callable
from pathlib import Path

import pytest

MIB = 2**20


def peak(call: Callable[[], object]) -> int:
    """Bytes by which the process's resident memory grew at most while `call` ran."""
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        pytest.skip("needs Linux's /proc")
    reset.write_text("5")  # the high-water mark falls to what is used now
    before = _status("VmRSS")
    call()
    return max(0, _status("VmHWM") - before)


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return 1024 * int(line.split()[1])
    raise KeyError(key)
