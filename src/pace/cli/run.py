"""`pace run`: a whole federation in this process."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

EXAMPLES = """
Examples:

  pace run

  pace run --dataset synthetic-clash

  pace run --dataset cora --methods all --out results/

  pace run --seeds 104729 --json

  pace run --numbers int8

  pace run --tensorboard runs/
"""


def run(
    dataset: Annotated[
        str, typer.Option(help="A dataset's name, or a .graph file of your own.")
    ] = "synthetic",
    partition: Annotated[
        str, typer.Option(help="How nodes are divided among clients.")
    ] = "louvain",
    partition_file: Annotated[
        Path | None, typer.Option(help="Use this partition (from `pace partition`).")
    ] = None,
    clients: Annotated[int, typer.Option(help="How many clients.")] = 10,
    methods: Annotated[
        str, typer.Option(help="Methods, separated by commas, or `all`.")
    ] = "local,fedavg,pace",
    rank: Annotated[str, typer.Option(help="Rank of PACE's messages, or `dense`.")] = "6",
    seeds: Annotated[
        str, typer.Option(help="How many of the paper's five seeds, or a list of your own.")
    ] = "5",
    data_seed: Annotated[int, typer.Option(help="Seed of partition and masks.")] = 2024,
    epochs: Annotated[
        int | None, typer.Option(help="Training steps; each method's own budget if not given.")
    ] = None,
    hidden: Annotated[int, typer.Option(help="Width of the hidden layers.")] = 64,
    layers: Annotated[int, typer.Option(help="Number of graph convolutions.")] = 2,
    numbers: Annotated[
        str, typer.Option(help="Numbers on the wire: float32, float16 or int8.")
    ] = "float32",
    device: Annotated[str, typer.Option(help="Where clients train: auto, cpu or cuda.")] = "auto",
    data_root: Annotated[
        Path | None, typer.Option(help="Folder of the benchmarks (default: $PACE_DATA).")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write results.json and index.html, a page of it, to this folder."),
    ] = None,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Log the run for TensorBoard in a new folder of this one.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a whole federation in this process: every client, the server, every message in bytes."""
    import torch
    from rich.console import Console
    from rich.progress import Progress

    from pace import atomic, run_page
    from pace.cli import options
    from pace.data import load
    from pace.gcn import GCN
    from pace.partition import divide, file
    from pace.report import show
    from pace.reproduce.cell import plain, versions
    from pace.simulation import simulate, steps
    from pace.summary import summarise

    if tensorboard:
        options.need("--tensorboard", "tracking", "tensorboard")
    chosen_seeds = options.seeds(seeds)
    chosen_methods = options.methods(methods, options.rank(rank))
    chosen_numbers = options.numbers(numbers)
    chosen_device = options.device(device)
    loaded = load(dataset, data_root)
    graphs = (
        file.read(partition_file, loaded)
        if partition_file
        else divide(loaded, partition, clients, data_seed)
    )
    gcn = GCN(options.widths(loaded.graph.features, hidden, layers, loaded.classes))
    torch.set_num_threads(1)  # two threads on small products are slower than one
    bar = Progress(*Progress.get_default_columns(), console=Console(stderr=True), transient=True)
    with bar:
        task = bar.add_task("", total=steps(len(graphs), gcn, chosen_methods, chosen_seeds))
        trials = list(
            simulate(
                graphs,
                gcn,
                chosen_methods,
                chosen_seeds,
                epochs=epochs,
                numbers=chosen_numbers,
                device=chosen_device,
                progress=lambda step: bar.update(task, advance=1, description=step),
            )
        )
    trials.sort(
        key=lambda trial: list(chosen_methods).index(trial.method)
    )  # as they were asked for
    found: dict[str, Any] = {
        "command": shlex.join(["pace", *sys.argv[1:]]),
        "versions": versions(),
        "dataset": loaded.name,
        "partition": str(partition_file) if partition_file else partition,
        "clients": len(graphs),
        "seeds": chosen_seeds,
        "device": chosen_device,
        "data_seed": data_seed,
        "epochs": epochs,
        "model": {"widths": gcn.widths, "dropout": gcn.dropout},
        "rank": options.rank(rank),
        "numbers": chosen_numbers,
        **summarise(trials),
        "trials": [
            {"method": trial.method, "seed": trial.seed, **plain(trial)} for trial in trials
        ],
    }
    written = []
    if out:
        atomic.write(out / "results.json", (json.dumps(found, indent=1) + "\n").encode())
        written += [run_page.write(out), out / "results.json"]
    if tensorboard:
        from pace import tracking

        written.append(tracking.write(tensorboard, found))
    if as_json:
        json.dump(found, sys.stdout)
        print()
    else:
        show(found, Console())
        if written:
            print(f"Written: {', '.join(map(str, written))}")
