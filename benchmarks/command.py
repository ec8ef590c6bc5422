"""`pace run` from start to table, imports included, against a plain script that makes that table."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.clock import Row, row
from pace.datasets import data_root

PACE = [sys.executable, "-c", "from pace.cli import program; program()"]
SCRIPT = Path(__file__).with_name("plain_script.py")
Seconds = tuple[float, float]  # on the clock, and of processors
PLAIN_SCRIPT = ("cora", "citeseer", "pubmed", "cs", "computers")  # what it can load
PEER = "a script of PyG's loop, dense SVDs, SciPy and scikit-learn"


def command(name: str, device: str, turns: int, root: Path | None) -> Iterator[Row]:
    """Cold: with nothing cached, once. Warm: in turns, each side with what it keeps on disk.

    Each in seconds on the clock and in seconds of processors, which other work disturbs less.
    """
    where = "cuda" if device == "cuda" else "cpu"
    with TemporaryDirectory() as folder:
        raw = Path(folder) / "raw"
        linked(data_root(root), raw)
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "XDG_CACHE_HOME": f"{folder}/cache",
            "TRITON_CACHE_DIR": f"{folder}/triton",
            "PACE_DATA": str(raw),
        }
        ours = [*PACE, "run", "--dataset", name, "--device", where]
        peer = [sys.executable, "-P", str(SCRIPT), name, str(raw), where]

        def turn() -> tuple[Seconds, Seconds]:
            return run(ours, environment), run(peer, environment)

        for kind, pairs in (("cold", [turn()]), ("warm", [turn() for _ in range(turns)])):
            for clock, said in enumerate(("", ", processor time")):
                seconds = [(own[clock], theirs[clock]) for own, theirs in pairs]
                yield row(f"command, {kind}{said}", name, PEER, seconds)


def run(words: list[str], environment: dict[str, str]) -> Seconds:
    """How long a program took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{words[-4:]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return took, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def linked(root: Path, copy: Path) -> None:
    """The raw files in a folder where PyG may put its processed ones."""
    for path in root.rglob("*"):
        if path.is_file() and "raw" in path.parts:
            place = copy / path.relative_to(root)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(path.resolve())
