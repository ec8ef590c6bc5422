"""`pace run` from start to table, imports included, against a plain script that makes that table."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.clock import Point, child, compared
from pace.datasets import data_root

SCRIPT = Path(__file__).with_name("plain_script.py")
PLAIN_SCRIPT = ("cora", "citeseer", "pubmed", "cs", "computers")  # what it can load
METHODS = "local,fedavg,pace"  # whose table it makes
PEER = "a script of PyG's loop, dense SVDs, SciPy and scikit-learn"


def command(name: str, device: str, turns: int) -> Iterator[Point]:
    """Cold: with nothing cached, once. Warm: in turns, each side with what it keeps on disk.

    Each in seconds on the clock and in seconds of processors, which other work disturbs less.
    """
    with TemporaryDirectory() as folder:
        raw = Path(folder) / "raw"
        linked(data_root(), raw)
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "XDG_CACHE_HOME": f"{folder}/cache",
            "TRITON_CACHE_DIR": f"{folder}/triton",
            "PACE_DATA": str(raw),
        }
        ours = ("-m", "pace", "run", "--dataset", name, "--device", device, "--methods", METHODS)
        sides = (ours, ("-P", SCRIPT, name, raw, device))

        def turn() -> list[dict[str, float]]:
            return [child(*words, environment=environment)[0] for words in sides]

        for kind, pairs in (("cold", [turn()]), ("warm", [turn() for _ in range(turns)])):
            for clock, said in (("seconds", ""), ("cpu_seconds", ", processor time")):
                seconds = [(own[clock], theirs[clock]) for own, theirs in pairs]
                yield compared(f"command, {kind}{said}", name, PEER, seconds)


def linked(root: Path, copy: Path) -> None:
    """The raw files in a folder where PyG may put its processed ones."""
    for path in root.rglob("*"):
        if path.is_file() and "raw" in path.parts:
            place = copy / path.relative_to(root)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(path.resolve())
