"""Whether a version is slower than another: `python benchmarks/two_versions.py OLD/src NEW/src`.

The command's help, a run, one client's training, and a merge, each in a process of its own with one
thread, old and new in turns, so that a busy machine slows both. Seconds are those of the CPU; ratios are
taken turn by turn. Only public names are used, so that it runs on any version that has them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

PREPARED = """
import time, torch
from pace import GCN, Federation, Pace, divide, fit, load, merge
torch.set_num_threads(1)
data = load("synthetic")
graphs = divide(data, "louvain", 10)
agreed = Federation(GCN((data.graph.features, 64, data.classes)), Pace(), {seed}, {epochs})
"""
TIMED = """
work()
began = time.process_time()
for _ in range({times}):
    work()
print((time.process_time() - began) / {times})
"""
COMMAND = """
import contextlib, io, sys, time
began = time.process_time()
sys.argv = {words!r}.split()
from pace.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
print(time.process_time() - began)
"""
RUN = "pace run --methods local,fedavg,pace --seeds 1 --json"
MERGE = """
uploads = {times} * [fit(graph, agreed)[1] for graph in graphs]
def work(): merge(uploads, agreed)
"""
WORK = {
    "pace --help": COMMAND.format(words="pace --help"),
    "pace run, three methods, one seed": COMMAND.format(words=RUN),
    "training, one client, 100 epochs": PREPARED.format(seed=1, epochs=100)
    + "def work(): fit(graphs[0], agreed)\n"
    + TIMED.format(times=3),
    "merge, 10 clients": PREPARED.format(seed=1, epochs=2)
    + MERGE.format(times=1)
    + TIMED.format(times=100),
    "merge, 640 clients": PREPARED.format(seed=1, epochs=2)
    + MERGE.format(times=64)
    + TIMED.format(times=3),
}


def seconds(source: str, code: str) -> float:
    """What a fresh process says that the work took."""
    settings = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--turns", type=int, default=7)
    given = parser.parse_args()
    print(f"| what | old, ms | new, ms | new / old, median of {given.turns} | lowest to highest |")
    print("|---|---|---|---|---|")
    for what, code in WORK.items():
        turns = [(seconds(given.old, code), seconds(given.new, code)) for _ in range(given.turns)]
        ratios = [new / old for old, new in turns]
        old, new = (1e3 * statistics.median(side) for side in zip(*turns, strict=True))
        ratio, spread = statistics.median(ratios), f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(
            f"| {what} | {old:.1f} | {new:.1f} | {ratio:.2f} | {spread} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
