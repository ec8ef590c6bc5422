"""`pace bench`: speed, memory and growth against what everybody writes, in one run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pace.bench.clock import Row
    from pace.federation import Federation
    from pace.graph import Graph

EXAMPLES = """
Examples:

  pace bench --dataset synthetic --quick

  pace bench --dataset cora,citeseer,pubmed,cs,computers --out bench/

  pace bench --only scale
"""

PARTS = ("training", "study", "steps", "partition", "numbers", "server", "scale")


def bench(
    dataset: Annotated[str, typer.Option(help="Datasets, separated by commas.")] = "synthetic",
    only: Annotated[str, typer.Option(help=f"Parts to run: {', '.join(PARTS)}.")] = "",
    clients: Annotated[int, typer.Option(help="How many clients.")] = 10,
    turns: Annotated[int, typer.Option(help="How often each comparison is repeated.")] = 5,
    threads: Annotated[int, typer.Option(help="Threads of both sides, on a CPU.")] = 1,
    quick: Annotated[bool, typer.Option(help="Small sizes, one turn: does it run?")] = False,
    device: Annotated[str, typer.Option(help="Where clients train: auto, cpu or cuda.")] = "cpu",
    data_root: Annotated[
        Path | None, typer.Option(help="Folder of the benchmarks (default: $PACE_DATA).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write bench.json and bench.png to this folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure speed and memory, each against the plain PyG loop or the naive form in the same run."""
    import platform

    import torch
    from rich.console import Console

    from pace import atomic
    from pace.bench.memory import peak
    from pace.cli import options
    from pace.errors import SettingError

    parts = [part.strip() for part in only.split(",") if part.strip()] or list(PARTS)
    if unknown := sorted(set(parts) - set(PARTS)):
        raise SettingError(f"--only names {unknown}, expected some of {', '.join(PARTS)}")
    if out:
        options.need("pace bench --out", "report", "matplotlib")  # before the minutes, not after
    names = options.words(dataset) or []
    where = options.device(device)
    torch.set_num_threads(threads)
    found: dict[str, Any] = {
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "threads": threads,
            "device": torch.cuda.get_device_name() if where == "cuda" else "cpu",
            "torch": torch.__version__,
        },
        "rows": [],
    }
    console = Console(stderr=as_json)
    for name in names:
        for row in compare(name, parts, clients, 1 if quick else turns, where, data_root):
            found["rows"].append(row)
            low, high = row["spread"]
            console.print(
                f"{row['what']:<18} {row['where']:<12} {row['ours_seconds'] * 1e3:10.2f} ms   "
                f"{row['ratio']:7.1f}x ({low:.1f} to {high:.1f})  {row['peer']}",
                highlight=False,
                soft_wrap=True,
            )
    if "numbers" in parts:
        from pace.bench.numbers import kinds

        found["numbers"] = []
        for name in names:
            graphs, federation = prepared(name, clients, data_root)
            for point in kinds(name, graphs, federation.gcn):
                found["numbers"].append(point)
                console.print(f"numbers {point}", highlight=False, soft_wrap=True)
    if "server" in parts:
        from pace.bench.server import growth

        found["server"] = []
        for point in growth([100] if quick else [100, 1_000, 10_000]):
            found["server"].append(point)
            console.print(f"server {point}", highlight=False, soft_wrap=True)
    if "scale" in parts:
        from pace.bench.scale import SIZES, sweep

        found["scale"] = []
        for point in sweep(SIZES[:1] if quick else SIZES):
            found["scale"].append(point)
            console.print(f"scale {point}", highlight=False, soft_wrap=True)
    found["peak_mb"] = peak()
    if out:
        from pace.bench.picture import draw

        atomic.write(out / "bench.json", (json.dumps(found, indent=1) + "\n").encode())
        draw(out / "bench.png", found)
        console.print(f"Written: {out / 'bench.json'}, {out / 'bench.png'}", soft_wrap=True)
    if as_json:
        print(json.dumps(found))


def compare(
    name: str, parts: list[str], clients: int, turns: int, device: str, data_root: Path | None
) -> Iterator[dict[str, Any]]:
    """The rows of one dataset."""
    from pace.bench import measure

    if not {"training", "study", "steps", "partition"} & set(parts):
        return
    graphs, federation = prepared(name, clients, data_root)
    rows: list[Iterator[Row]] = []
    if "training" in parts:
        rows.append(measure.training(name, graphs, federation, device, turns))
    if "study" in parts:
        rows.append(measure.study(name, graphs, federation, device, turns))
    if "steps" in parts:
        rows.append(measure.steps(name, graphs, federation, turns))
    if "partition" in parts:
        from pace.data import load

        rows.append(measure.partitioning(name, load(name, data_root).graph, clients, turns))
    for row in chain.from_iterable(rows):
        yield row.plain()


def prepared(name: str, clients: int, data_root: Path | None) -> tuple[list[Graph], Federation]:
    """A dataset's client graphs and the paper's federation over them."""
    from pace.data import load
    from pace.federation import Federation
    from pace.gcn import GCN
    from pace.methods import Pace
    from pace.partition import divide

    loaded = load(name, data_root)
    gcn = GCN((loaded.graph.features, 64, loaded.classes))
    return divide(loaded, "louvain", clients), Federation(gcn, Pace())
