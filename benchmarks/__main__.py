"""Speed, memory and growth against what everybody writes, measured beside it in the same run."""

import json
import platform
import textwrap
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from benchmarks import measure, rows, scale, server
from benchmarks.clock import Point, peak
from benchmarks.command import PLAIN_SCRIPT, command
from pace.datasets import divide, load
from pace.io import atomic
from pace.models import GCN

CLIENTS = (10, 30, 100, 1_000, 10_000)  # of the server as it grows


def main(
    datasets: Annotated[str, typer.Option(help="separated by commas")] = "synthetic",
    only: Annotated[str, typer.Option(help="parts, separated by commas; all by default")] = "",
    clients: int = 10,
    turns: Annotated[int, typer.Option(help="of each comparison")] = 5,
    threads: Annotated[int, typer.Option(help="of both sides, on a CPU")] = 1,
    quick: Annotated[bool, typer.Option(help="small sizes, one turn: does it run?")] = False,
    device: str = "cpu",
    out: Annotated[Path | None, typer.Option(help="write bench.json to this folder")] = None,
) -> None:
    """Print a line for each measurement."""
    names, turns, few = datasets.split(","), 1 if quick else turns, 1 if quick else None

    def trained(measured: Callable[..., Iterable[Point]]) -> Iterator[Point]:
        for name in names:
            loaded = load(name)
            gcn = GCN((loaded.graph.features, 64, loaded.classes))
            yield from measured(name, divide(loaded, "louvain", clients), gcn, device, turns)

    scripted = (command(name, device, turns) for name in names if name in PLAIN_SCRIPT)
    parts: dict[str, Iterable[Point]] = {
        "command": chain.from_iterable(scripted),
        "training": trained(measure.training),
        "models": trained(measure.every_model),
        "server": server.growth((100,) if quick else CLIENTS, turns),
        "sealing": server.sealed(turns, few),
        "scale": scale.sweep(scale.SIZES[:few]),
        "rows": rows.sweep(rows.SIZES[:few]),
    }
    chosen = only.split(",") if only else parts
    if unknown := sorted(set(chosen) - set(parts)):
        raise typer.BadParameter(
            f"--only names {', '.join(unknown)}, expected some of {', '.join(parts)}"
        )
    torch.set_num_threads(threads)
    found: dict[str, Any] = {
        "processor": platform.processor() or platform.machine(),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "threads": threads,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    for part in chosen:
        found[part] = []
        for point in parts[part]:
            found[part].append(point)
            print(shown(part, point), flush=True)
    found["peak_mb"] = peak()
    if out:
        atomic.write(out / "bench.json", (json.dumps(found, indent=1) + "\n").encode())


def shown(part: str, point: Point) -> str:
    """The facts of one measurement after the name of its part."""
    facts = (
        f"{key.replace('_', ' ')} {f'{value:,.4g}' if isinstance(value, float) else value}"
        for key, value in point.items()
    )
    text = f"{part:<9} {', '.join(facts)}"
    return textwrap.fill(text, 100, subsequent_indent=" " * 10, break_on_hyphens=False)


if __name__ == "__main__":
    typer.run(main)
