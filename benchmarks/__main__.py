"""Speed, memory and growth against what everybody writes, measured beside it in the same run."""

from __future__ import annotations

import argparse
import json
import platform
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import measure, rows, scale
from benchmarks.clock import Point, peak
from benchmarks.command import PLAIN_SCRIPT, command
from benchmarks.sealing import sealed
from benchmarks.server import growth
from pace.datasets import divide, load
from pace.io import atomic
from pace.models import GCN

OF_A_GRAPH = {"training": measure.training, "models": measure.every_model}
PARTS = ("command", *OF_A_GRAPH, "server", "sealing", "scale", "rows")
CLIENTS = (10, 30, 100, 1_000, 10_000)  # of the server as it grows


def points(part: str, given: argparse.Namespace) -> Iterable[Point]:
    """What a part measures."""
    few = 1 if given.quick else None
    match part:
        case "server":
            yield from growth((100,) if given.quick else CLIENTS, given.turns)
        case "sealing":
            yield from sealed(given.turns, quick=given.quick)
        case "scale":
            yield from scale.sweep(scale.SIZES[:few])
        case "rows":
            yield from rows.sweep(rows.SIZES[:few])
        case "command":
            for name in filter(PLAIN_SCRIPT.__contains__, given.datasets.split(",")):
                yield from command(name, given.device, given.turns)
        case _:
            for name in given.datasets.split(","):
                loaded = load(name)
                graphs = divide(loaded, "louvain", given.clients)
                gcn = GCN((loaded.graph.features, 64, loaded.classes))
                yield from OF_A_GRAPH[part](name, graphs, gcn, given.device, given.turns)


def shown(part: str, point: Point) -> str:
    """The facts of one measurement after the name of its part."""
    facts = (
        f"{key.replace('_', ' ')} {f'{value:,.4g}' if isinstance(value, float) else value}"
        for key, value in point.items()
    )
    text = f"{part:<9} {', '.join(facts)}"
    return textwrap.fill(text, 100, subsequent_indent=" " * 10, break_on_hyphens=False)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--datasets", default="synthetic", help="separated by commas")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts of {', '.join(PARTS)}")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--turns", type=int, default=5, help="of each comparison")
    parser.add_argument("--threads", type=int, default=1, help="of both sides, on a CPU")
    parser.add_argument("--quick", action="store_true", help="small sizes, one turn: does it run?")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, help="write bench.json to this folder")
    given = parser.parse_args(words)
    given.turns = 1 if given.quick else given.turns
    if unknown := sorted(set(given.only.split(",")) - set(PARTS)):
        parser.error(f"--only names {', '.join(unknown)}, expected some of {', '.join(PARTS)}")
    torch.set_num_threads(given.threads)
    found: dict[str, Any] = {
        "processor": platform.processor() or platform.machine(),
        "device": torch.cuda.get_device_name() if given.device == "cuda" else "cpu",
        "threads": given.threads,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    for part in given.only.split(","):
        found[part] = []
        for point in points(part, given):
            found[part].append(point)
            print(shown(part, point), flush=True)
    found["peak_mb"] = peak()
    if given.out:
        atomic.write(given.out / "bench.json", (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
