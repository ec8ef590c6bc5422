"""Speed, memory and growth against what everybody writes, measured beside it in the same run."""

import os
import platform
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated
from unittest import mock

import numpy as np
import torch
import typer

from benchmarks import measure, server
from benchmarks.clock import Point, child, command, compared
from pace.datasets import data_root, divide, load

SCRIPT = Path(__file__).with_name("plain_script.py")
PLAIN_SCRIPT = ("cora", "citeseer", "pubmed", "cs", "computers")  # what it can load
METHODS = "local,fedavg,pace"  # whose table it makes
PEER = "a script of PyG's loop, dense SVDs, SciPy and scikit-learn"


def main(
    datasets: Annotated[str, typer.Option(help="separated by commas")] = "synthetic",
    only: Annotated[str, typer.Option(help="parts, separated by commas; all by default")] = "",
    clients: int = 10,
    turns: Annotated[int, typer.Option(help="of each comparison")] = 5,
    threads: Annotated[int, typer.Option(help="of both sides, on a CPU")] = 1,
    device: str = "cpu",
) -> Iterator[Point]:
    """Print what ran it, then a JSON object for each measurement."""
    names = datasets.split(",")

    def trained(measured: Callable[..., Iterable[Point]]) -> Iterator[Point]:
        for name in names:
            yield from measured(name, divide(load(name), "louvain", clients), device, turns)

    scripted = (from_start_to_table(name, device, turns) for name in names if name in PLAIN_SCRIPT)
    parts: dict[str, Iterable[Point]] = {
        "command": chain.from_iterable(scripted),
        "training": trained(measure.training),
        "models": trained(measure.every_model),
        "server": server.growth((10, 30, 100, 1_000, 10_000), turns),
        "sealing": server.sealed(turns),
    }
    chosen = only.split(",") if only else parts
    if unknown := sorted(set(chosen) - set(parts)):
        raise typer.BadParameter(
            f"--only names {', '.join(unknown)}, expected some of {', '.join(parts)}"
        )
    torch.set_num_threads(threads)
    machine = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    yield {"device": machine, "threads": threads, **versions, "numpy": np.__version__}
    for part in chosen:
        yield from ({"part": part, **point} for point in parts[part])


def from_start_to_table(name: str, device: str, turns: int) -> Iterator[Point]:
    """`pace run` from start to table, imports included, against a script that makes that table.

    Cold: with nothing cached, once. Warm: in turns, each side with what it keeps on disk. Each in
    seconds on the clock and in seconds of processors, which other work disturbs less.
    """
    with TemporaryDirectory() as folder, mock.patch.dict(os.environ):
        raw = Path(folder) / "raw"
        for path in data_root().resolve().rglob("raw"):  # beside it PyG puts what it processed
            copy = raw / path.relative_to(data_root().resolve())
            copy.parent.mkdir(parents=True)
            copy.symlink_to(path)
        os.environ |= {
            "OMP_NUM_THREADS": "1",
            "XDG_CACHE_HOME": f"{folder}/cache",
            "TRITON_CACHE_DIR": f"{folder}/triton",
            "PACE_DATA": str(raw),
        }
        ours = ("-m", "pace", "run", "--dataset", name, "--device", device, "--methods", METHODS)
        sides = (ours, ("-P", SCRIPT, name, raw, device))

        def turn() -> list[dict[str, float]]:
            return [child(*words)[0] for words in sides]

        for kind, pairs in (("cold", [turn()]), ("warm", [turn() for _ in range(turns)])):
            for clock in ("seconds", "cpu_seconds"):
                seconds = [(own[clock], theirs[clock]) for own, theirs in pairs]
                yield compared(f"command, {kind}, {clock}", name, PEER, seconds)


if __name__ == "__main__":
    command(main)
