"""Two ways of doing a thing, timed in turns: a busy machine slows both."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Row:
    """One comparison. Ratios are taken turn by turn; spread is their lowest and highest."""

    what: str  # training, merge, ...
    where: str  # the dataset, or the size
    peer: str  # what it is compared with
    ours_seconds: float  # median
    peer_seconds: float  # median, scaled to the same work
    ratio: float  # median of peer / ours
    spread: tuple[float, float]


Point = Mapping[str, str | float]  # one measurement: what was measured -> its value


def timed(work: Callable[[], object]) -> float:
    """Seconds, until the GPU is done too."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began


def seconds(work: Callable[[], object]) -> float:
    """What the work says that it took, or else how long it took."""
    said: list[object] = []
    took = timed(lambda: said.append(work()))
    return said[0] if isinstance(said[0], float) else took


def compared(
    what: str,
    where: str,
    ours: Callable[[], object],
    peer: tuple[str, Callable[[], object]],
    *,
    turns: int = 5,
    peer_times: int = 1,
) -> Row:
    """Both in turns, after one turn each that does not count.

    A peer that gives a number has timed itself. `peer_times` is how often it would have to do what
    it does for the same work as ours, one seed after another.
    """
    name, other = peer
    ours()
    other()
    pairs = [(timed(ours), peer_times * seconds(other)) for _ in range(turns)]
    return row(what, where, name, pairs)


def row(what: str, where: str, peer: str, pairs: Sequence[tuple[float, float]]) -> Row:
    """One comparison from the seconds of ours and of the peer's in each turn."""
    ratios = sorted(theirs / own for own, theirs in pairs)
    return Row(
        what,
        where,
        peer,
        ours_seconds=statistics.median(own for own, _ in pairs),
        peer_seconds=statistics.median(theirs for _, theirs in pairs),
        ratio=statistics.median(ratios),
        spread=(ratios[0], ratios[-1]),
    )


def versus(what: str, whole: Row, ours: list[float]) -> Row:
    """Other timings of ours against the peer of a row."""
    return row(what, whole.where, whole.peer, [(each, whole.peer_seconds) for each in ours])


def spent(work: Callable[[], object], turns: int = 1) -> float:
    """Seconds of CPU time, the median over turns; with several, after one that does not count."""
    taken = []
    for _ in range(turns + (turns > 1)):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return statistics.median(taken[turns > 1 :])


def by_itself(module: str, *words: object) -> dict[str, float]:
    """The JSON that a module of this package prints, in a process whose peak memory is its own."""
    command = [sys.executable, "-m", module, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


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
