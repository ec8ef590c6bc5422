"""`python -m benchmarks`: speed, memory and growth against what everybody writes, in one run."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pace.cli.given import As_json, Clients, Data_root, Datasets, Device, lists

if TYPE_CHECKING:
    from benchmarks.clock import Point, Row
    from pace.graph import Graph
    from pace.protocol.federation import Federation

EXAMPLES = """
Examples:

  python -m benchmarks --datasets synthetic --quick

  python -m benchmarks --datasets cora,citeseer,pubmed,cs,computers --out bench/

  python -m benchmarks --only scale

  python -m benchmarks --only models --datasets cora
"""

PARTS = (
    "training",
    "models",
    "study",
    "steps",
    "partition",
    "command",
    "numbers",
    "server",
    "sealing",
    "scale",
)


PLAIN_SCRIPT = ("cora", "citeseer", "pubmed", "cs", "computers")  # what the peer's script can load


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
    import platform

    import numpy as np
    import torch

    from benchmarks.clock import Measurements
    from benchmarks.memory import peak
    from pace.cli import console, options
    from pace.errors import SettingError
    from pace.io import atomic

    parts = [part.strip() for part in only.split(",") if part.strip()] or list(PARTS)
    if unknown := sorted(set(parts) - set(PARTS)):
        raise SettingError(f"--only names {unknown}, expected some of {', '.join(PARTS)}")
    if out:
        options.need(
            "python -m benchmarks --out", "report", "matplotlib"
        )  # before the minutes, not after
    options.folder("--out", out)
    options.at_least_one("--turns", turns)
    options.at_least_one("--threads", threads)
    names = options.words(datasets) or []
    if not names:
        raise SettingError("--datasets is empty: name at least one, such as synthetic")
    if "command" in parts and set(names) & set(PLAIN_SCRIPT):
        options.need(
            "python -m benchmarks --only command", "dev", "sklearn"
        )  # which its plain script imports
    elif parts == ["command"]:
        raise SettingError(
            f"--only command has nothing to compare {', '.join(names)} with: its plain script reads "
            f"{', '.join(PLAIN_SCRIPT)}"
        )
    where = options.device(device)
    torch.set_num_threads(threads)
    found = Measurements(
        {
            "processor": platform.processor() or platform.machine(),
            "threads": threads,
            "device": torch.cuda.get_device_name() if where == "cuda" else "cpu",
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        }
    )

    def tell(text: str) -> None:
        for line in text.splitlines():  # a console shows a line end within a text as \\x0a
            to.print(line)

    def note(part: str, point: Point) -> None:
        found.points.setdefault(part, []).append(point)
        tell(measured(part, point))

    to = console.console(stderr=as_json)
    for name in names:
        for row in compare(name, parts, clients, 1 if quick else turns, where, data_root):
            found.rows.append(row)
            tell(compared(row))
    if "numbers" in parts:
        from benchmarks.number_formats import kinds

        for name in names:
            graphs, federation = prepared(name, clients, data_root)
            for point in kinds(name, graphs, federation.model):
                note("numbers", point)
    if "server" in parts:
        from benchmarks.server import growth

        for point in growth(
            [100] if quick else [10, 30, 100, 1_000, 10_000], 1 if quick else turns
        ):
            note("server", point)
    if "sealing" in parts:
        from benchmarks.sealing import sealed

        for point in sealed(1 if quick else turns, quick=quick):
            note("sealing", point)
    if "scale" in parts:
        from benchmarks.scale import SIZES, sweep

        for point in sweep(SIZES[:1] if quick else SIZES):
            note("scale", point)
    found.peak_mb = peak()
    if out:
        from benchmarks.picture import draw

        atomic.write(out / "bench.json", (json.dumps(found.plain(), indent=1) + "\n").encode())
        draw(out / "bench.png", found)
        to.print(f"Written: {out / 'bench.json'}, {out / 'bench.png'}", soft_wrap=True)
    if as_json:
        console.one_object(found.plain())


def compared(row: Row) -> str:
    """How long ours took, how many times as long the peer, and who that is: two lines."""
    low, high = row.spread
    return (
        f"{row.what:<29} {row.where:<9} {row.ours_seconds * 1e3:>10.2f} ms "
        f"{row.ratio:>7.1f}x ({low:.1f} to {high:.1f})\n    against {row.peer}"
    )


def measured(part: str, point: Point) -> str:
    """The facts of one point, after the name of its part."""
    facts = (
        f"{key.replace('_', ' ')} {f'{value:,.4g}' if isinstance(value, float) else value}"
        for key, value in point.items()
    )
    indent = " " * 10
    return textwrap.fill(
        f"{part:<9} {', '.join(facts)}", 80, subsequent_indent=indent, break_on_hyphens=False
    )


def compare(
    name: str, parts: list[str], clients: int, turns: int, device: str, data_root: Path | None
) -> Iterator[Row]:
    """The rows of one dataset."""
    from benchmarks import measure

    if "command" in parts and name in PLAIN_SCRIPT:
        from benchmarks.command import command

        yield from command(name, device, turns, data_root)
    if not {"training", "models", "study", "steps", "partition"} & set(parts):
        return
    graphs, federation = prepared(name, clients, data_root)
    rows: list[Iterator[Row]] = []
    if "training" in parts:
        rows.append(measure.training(name, graphs, federation, device, turns))
    if "models" in parts:
        from benchmarks import models

        sizes = (federation.model.features, federation.model.classes)
        rows.append(models.training(name, graphs, *sizes, device, turns))
    if "study" in parts:
        rows.append(measure.study(name, graphs, federation, device, turns))
    if "steps" in parts:
        rows.append(measure.step_rows(name, graphs, federation, turns))
    if "partition" in parts:
        from pace.datasets import load

        rows.append(measure.partitioning(name, load(name, data_root).graph, turns))
    yield from chain.from_iterable(rows)


def prepared(name: str, clients: int, data_root: Path | None) -> tuple[list[Graph], Federation]:
    """A dataset's client graphs and the paper's federation over them."""
    from pace.datasets import load
    from pace.datasets.partition import divide
    from pace.methods import Pace
    from pace.models.gcn import GCN
    from pace.protocol.federation import Federation

    loaded = load(name, data_root)
    gcn = GCN((loaded.graph.features, 64, loaded.classes))
    return divide(loaded, "louvain", clients), Federation(gcn, Pace())


if __name__ == "__main__":
    typer.run(bench)
