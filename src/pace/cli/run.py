"""`pace run`: a whole federation in this process."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pace.cli.given import (
    As_json,
    Clients,
    Data_root,
    Data_seed,
    Dataset,
    Device,
    Dropout,
    Epochs,
    Learning_rate,
    Methods,
    Models,
    Numbers,
    Partition,
    Rank,
    Seeds,
    Weight_decay,
)

EXAMPLES = """
Examples:

  pace run

  pace run --dataset synthetic-clash

  pace run --dataset cora --methods all --out results/

  pace run --seeds 104729 --json

  pace run --model gat:heads=4 --hidden 32 --layers 3

  pace run --models gcn,sage,mlp --seeds 2

  pace run --methods fedprox:mu=0.1,fedprox:mu=0.01,pace --lr 0.02

  pace run --methods pace,my_methods.ties:Ties:density=0.3

  pace run --numbers int8

  pace run --methods fedavg,pace --sealed

  pace run --tensorboard runs/
"""


def run(
    dataset: Dataset = "synthetic",
    partition: Partition = None,
    partition_file: Annotated[
        Path | None,
        typer.Option(help="Use this partition (from `pace partition`).", metavar="FILE"),
    ] = None,
    clients: Clients = 10,
    model: Models = "gcn",
    methods: Methods = "local,fedavg,pace",
    rank: Rank = "6",
    seeds: Seeds = "5",
    data_seed: Data_seed = 2024,
    epochs: Epochs = None,
    lr: Learning_rate = None,
    weight_decay: Weight_decay = None,
    hidden: Annotated[int, typer.Option(help="Width of the hidden layers.", metavar="N")] = 64,
    layers: Annotated[
        int, typer.Option(help="Number of layers, or an sgc's hops.", metavar="N")
    ] = 2,
    dropout: Dropout = None,
    numbers: Numbers = None,
    sealed: Annotated[
        bool, typer.Option("--sealed", help="The server sees sums over all clients only.")
    ] = False,
    device: Device = "auto",
    data_root: Data_root = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write results.json and index.html, a page of it, to this folder.",
            metavar="FOLDER",
        ),
    ] = None,
    tensorboard: Annotated[
        Path | None,
        typer.Option(
            help="Log the run for TensorBoard in a new folder of this one.", metavar="FOLDER"
        ),
    ] = None,
    as_json: As_json = False,
) -> None:
    """Run a whole federation in this process: every client, the server, every message in bytes."""
    from pace.cli import console, options
    from pace.datasets import load
    from pace.datasets.partition import divide
    from pace.datasets.partition.file import read_partition
    from pace.reports import run_tables
    from pace.reports.tensorboard import write_tensorboard
    from pace.runtimes.simulation import progress_steps, simulate

    options.folder("--out", out)
    options.folder("--tensorboard", tensorboard)
    if tensorboard:
        options.need("--tensorboard", "tracking", "tensorboard")
    chosen_seeds = options.seeds(seeds)
    chosen_methods = options.methods(methods, options.rank(rank))
    chosen_device = options.device(device)
    settings: dict[str, Any] = {
        "epochs": epochs,
        "rate": lr,
        "decay": weight_decay,
        "numbers": options.numbers(numbers),
        "sealed": sealed,
    }
    loaded = load(dataset, data_root)
    graphs = (
        read_partition(partition_file, loaded)
        if partition_file
        else divide(loaded, partition, clients, data_seed)
    )
    models = options.models(model, loaded.graph.features, hidden, layers, loaded.classes, dropout)
    total = sum(
        progress_steps(len(graphs), network, chosen_methods, chosen_seeds)
        for network in models.values()
    )
    for method in chosen_methods.values():
        if caution := method.caution(len(graphs)):
            console.say(caution, err=True)
    with console.progress(total, "Training") as bar:
        results = {
            name: simulate(
                graphs,
                chosen_methods,
                model=network,
                seeds=chosen_seeds,
                device=chosen_device,
                command=shlex.join(["pace", *sys.argv[1:]]),
                progress=bar,
                **settings,
            )
            for name, network in models.items()
        }
    written = []
    for name, result in results.items():
        if out:
            folder = out if len(results) == 1 else out / options.file_name(name)
            written += [result.page(folder), result.write(folder)]
        if tensorboard:
            written.append(write_tensorboard(tensorboard, result))
    if as_json:
        objects = {name: result.plain() for name, result in results.items()}
        console.one_object(result.plain() if len(results) == 1 else {"models": objects})
        return
    to = console.console()
    if len(results) == 1:
        run_tables.show(result, to)
    else:
        run_tables.model_table(results).show(to)
    if written:
        console.say(f"Written: {', '.join(map(str, written))}")
