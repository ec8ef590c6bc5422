"""`python -m benchmarks`: speed, memory and growth against what everybody writes, in one run."""

from __future__ import annotations

import json
import platform
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from benchmarks import measure, rows
from benchmarks.clock import Point, Row, peak
from benchmarks.command import PLAIN_SCRIPT, command
from benchmarks.scale import SIZES, sweep
from benchmarks.sealing import sealed
from benchmarks.server import growth
from pace.cli import given
from pace.cli.given import As_json, Clients, Data_root, Datasets, Device, lists
from pace.datasets import divide, load
from pace.errors import PaceError, SettingError
from pace.io import atomic
from pace.io import terminal as console
from pace.models import GCN

OF_A_GRAPH = ("training", "models", "study", "steps", "partition")
PARTS = (*OF_A_GRAPH, "command", "server", "sealing", "scale", "rows")
CLIENTS = (10, 30, 100, 1_000, 10_000)  # of the server as it grows


def bench(
    datasets: Datasets = "synthetic",
    only: Annotated[
        str,
        typer.Option(
            help=f"Only these parts, separated by commas: {', '.join(PARTS)}.",
            metavar="NAMES",
            autocompletion=lists(*PARTS),
        ),
    ] = "",
    clients: Clients = 10,
    turns: Annotated[
        int, typer.Option(help="How often each comparison is repeated.", metavar="N")
    ] = 5,
    threads: Annotated[int, typer.Option(help="Threads of both sides, on a CPU.", metavar="N")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes, one turn: does it run?")
    ] = False,
    device: Device = "cpu",
    data_root: Data_root = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write bench.json and bench.png to this folder.", metavar="FOLDER"),
    ] = None,
    as_json: As_json = False,
) -> None:
    """Measure speed and memory, each against the plain PyG loop or the naive form in the same run."""
    parts, names = chosen(only, datasets)
    given.folder("--out", out)
    given.at_least_one("--turns", turns)
    given.at_least_one("--threads", threads)
    where, turns = given.device(device), 1 if quick else turns
    torch.set_num_threads(threads)
    machine = {
        "processor": platform.processor() or platform.machine(),
        "threads": threads,
        "device": torch.cuda.get_device_name() if where == "cuda" else "cpu",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    found: dict[str, Any] = {"machine": machine, "compared": []}

    def note(part: str, taken: Row | Point) -> None:
        if isinstance(taken, Row):
            found["compared"].append(asdict(taken))
        else:
            found.setdefault(part, []).append(taken)
        for line in shown(part, taken).splitlines():
            console.say(line, err=as_json)

    for name in names:
        if "command" in parts and name in PLAIN_SCRIPT:
            for row in command(name, where, turns, data_root):
                note("command", row)
        for part in (part for part in OF_A_GRAPH if part in parts):
            for taken in of_a_graph(part, name, clients, device=where, turns=turns, root=data_root):
                note(part, taken)
    growing: dict[str, Iterable[Point]] = {  # none begins before it is asked for
        "server": growth([100] if quick else list(CLIENTS), turns),
        "sealing": sealed(turns, quick=quick),
        "scale": sweep(SIZES[:1] if quick else SIZES),
        "rows": rows.sweep(rows.SIZES[:1] if quick else rows.SIZES),
    }
    for part in (part for part in growing if part in parts):
        for point in growing[part]:
            note(part, point)
    found["peak_mb"] = peak()
    if out:
        from benchmarks.picture import draw

        atomic.write(out / "bench.json", (json.dumps(found, indent=1) + "\n").encode())
        draw(out / "bench.png", found)
        console.say(f"Written: {out / 'bench.json'}, {out / 'bench.png'}", err=as_json)
    if as_json:
        console.one_object(found)


def chosen(only: str, datasets: str) -> tuple[list[str], list[str]]:
    """The parts and the datasets to measure, refused at once where they cannot be."""
    parts = [part.strip() for part in only.split(",") if part.strip()] or list(PARTS)
    if unknown := sorted(set(parts) - set(PARTS)):
        raise SettingError(f"--only names {unknown}, expected some of {', '.join(PARTS)}")
    names = given.words(datasets)
    if not names:
        raise SettingError("--datasets is empty: name at least one, such as synthetic")
    if "command" in parts and set(names) & set(PLAIN_SCRIPT):
        given.need("python -m benchmarks --only command", "pace-fgl[dev]", "sklearn")
    elif parts == ["command"]:
        raise SettingError(
            f"--only command has nothing to compare {', '.join(names)} with: its plain script reads "
            f"{', '.join(PLAIN_SCRIPT)}"
        )
    return parts, names


def of_a_graph(
    part: str, name: str, clients: int, *, device: str, turns: int, root: Path | None
) -> Iterator[Row] | Iterator[Point]:
    """What one part measures on a dataset's client graphs."""
    loaded = load(name, root)
    graphs = divide(loaded, "louvain", clients)
    gcn = GCN((loaded.graph.features, 64, loaded.classes))
    if part == "steps":
        return measure.step_rows(name, graphs, gcn, turns)
    if part == "partition":
        return measure.partitioning(name, loaded.graph, turns)
    works = {
        "training": measure.training,
        "models": measure.every_model,
        "study": measure.study,
    }
    return works[part](name, graphs, gcn, device, turns)


def shown(part: str, taken: Row | Point) -> str:
    """A comparison in two lines, or the facts of one measurement after the name of its part."""
    if isinstance(taken, Row):
        low, high = taken.spread
        return (
            f"{taken.what:<29} {taken.where:<9} {taken.ours_seconds * 1e3:>10.2f} ms "
            f"{taken.ratio:>7.1f}x ({low:.1f} to {high:.1f})\n    against {taken.peer}"
        )
    facts = (
        f"{key.replace('_', ' ')} {f'{value:,.4g}' if isinstance(value, float) else value}"
        for key, value in taken.items()
    )
    text = f"{part:<9} {', '.join(facts)}"
    return textwrap.fill(text, 80, subsequent_indent=" " * 10, break_on_hyphens=False)


def main() -> None:
    """Run the command; a mistake in what was given is one sentence."""
    try:
        typer.run(bench)
    except PaceError as error:
        console.say(f"benchmarks: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
