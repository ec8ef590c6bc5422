"""How much memory a process took at most."""

import resource
import sys
from pathlib import Path


def peak() -> float:
    """Megabytes, of this process so far.

    Linux hands the highest resident size on to a child; the child's own is in /proc.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (each for each in status.read_text().splitlines() if each.startswith("VmHWM"))
        return float(line.split()[1]) / 2**10
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 2**20 if sys.platform == "darwin" else most / 2**10
