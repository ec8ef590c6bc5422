"""`pace run` from start to table, imports included, against a plain script that makes that table."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pace.bench.clock import Row, compared, timed
from pace.data.folders import data_root

PACE = [sys.executable, "-c", "from pace.cli import main; main()"]
SCRIPT = Path(__file__).with_name("plain_script.py")
PEER = "a script of PyG's loop, dense SVDs, SciPy and scikit-learn"


def command(name: str, device: str, turns: int, root: Path | None) -> Iterator[Row]:
    """Cold: with nothing cached, once. Warm: in turns, each side with what it keeps on disk."""
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

        def ours() -> None:
            run([*PACE, "run", "--dataset", name, "--device", where], environment)

        def peer() -> None:
            run([sys.executable, "-P", str(SCRIPT), name, str(raw), where], environment)

        cold = timed(ours), timed(peer)
        ratio = cold[1] / cold[0]
        warm = compared("command, warm", name, ours, (PEER, peer), turns=turns)
        yield replace(
            warm,
            what="command, cold",
            ours_seconds=cold[0],
            peer_seconds=cold[1],
            ratio=ratio,
            spread=(ratio, ratio),
        )
        yield warm


def run(words: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{words[-4:]} ended with {done.returncode}:\n{done.stderr[-2000:]}")


def linked(root: Path, copy: Path) -> None:
    """The raw files in a folder where PyG may put its processed ones."""
    for path in root.rglob("*"):
        if path.is_file() and "raw" in path.parts:
            place = copy / path.relative_to(root)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(path.resolve())
