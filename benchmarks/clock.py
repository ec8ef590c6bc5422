"""Seconds and memory: of work in this process, of another process, and of two ways in turns."""

import functools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar

import torch
import typer

Result = TypeVar("Result")
Point = Mapping[str, Any]  # one measurement: what was measured -> its value


def command(points: Callable[..., Iterable[Point] | None]) -> None:
    """Run a benchmark as a program on one thread, which prints each measurement as a JSON object."""

    @functools.wraps(points)
    def printed(**options: Any) -> None:
        torch.set_num_threads(1)
        for point in points(**options) or ():
            print(json.dumps(point), flush=True)

    typer.run(printed)


def cost(work: Callable[..., Result], *given: Any, **named: Any) -> tuple[Result, dict[str, float]]:
    """What work gives; its seconds on the clock, until the GPU is done too, and of the processor, and
    this process's most memory."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else int
    wait()
    began, busy = time.perf_counter(), time.process_time()
    result = work(*given, **named)
    wait()
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    return result, {"seconds": seconds, "cpu_seconds": busy, "peak_mb": peak()}


def timed(work: Callable[..., object], *given: Any) -> float:
    return cost(work, *given)[1]["seconds"]


def spent(work: Callable[..., object], *given: Any, turns: int = 1) -> float:
    """Seconds of the processor, the median over turns; with several, after one that does not count."""
    taken = [cost(work, *given)[1]["cpu_seconds"] for _ in range(turns + (turns > 1))]
    return statistics.median(taken[turns > 1 :])


def compared(what: str, where: str, peer: str, pairs: Sequence[tuple[float, float]]) -> Point:
    """One comparison from the seconds of ours and of the peer's in each turn; ratios are of a turn."""
    ratios = [theirs / own for own, theirs in pairs]
    return {
        "what": what,
        "where": where,
        "ms": 1e3 * statistics.median(own for own, _ in pairs),
        "times_faster": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
        "peer": peer,
    }


def child(*words: object) -> tuple[dict[str, float], str]:
    """Run a Python program: its seconds and most memory, and what it printed.

    `anonymous_mb` leaves out pages of mapped files, which the system takes back when it needs them.
    """
    command, most = [sys.executable, *map(str, words)], {"VmHWM": 0, "RssAnon": 0}
    began, ended = time.perf_counter(), 0
    with TemporaryFile("w+") as printed:
        process = subprocess.Popen(command, stdout=printed)
        while not ended:
            with suppress(OSError, KeyError):  # it has ended
                kilobytes = memory(process.pid)
                most = {name: max(value, kilobytes[name]) for name, value in most.items()}
            time.sleep(0.02)
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        taken = {
            "seconds": time.perf_counter() - began,
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "peak_mb": most["VmHWM"] / 2**10,
            "anonymous_mb": most["RssAnon"] / 2**10,
        }
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(command[1:])} ended with {process.returncode}")
        printed.seek(0)
        return taken, printed.read()


def memory(process: int | str = "self") -> dict[str, int]:
    """Kilobytes of a process on Linux, by /proc's names."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith(" kB")}


def peak() -> float:
    """Megabytes, of this process so far."""
    return memory()["VmHWM"] / 2**10
