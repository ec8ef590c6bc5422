"""`pace run`: a whole federation in this process."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

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
    import torch

    from pace.cli import console, options
    from pace.datasets import load
    from pace.datasets.partition import divide, file
    from pace.io import atomic
    from pace.models import kind_of, settings_of
    from pace.protocol.federation import Federation
    from pace.reports.run_result import (
        NAME,
        MethodSettings,
        ModelSettings,
        RunResult,
        RunSettings,
        summarise,
    )
    from pace.reports.stored import versions
    from pace.reports.tables import compare, show
    from pace.runtimes.simulation import progress_steps, simulate

    options.folder("--out", out)
    options.folder("--tensorboard", tensorboard)
    if tensorboard:
        options.need("--tensorboard", "tracking", "tensorboard")
    chosen_seeds = options.seeds(seeds)
    chosen_methods = options.methods(methods, options.rank(rank))
    chosen_numbers = options.numbers(numbers)
    chosen_device = options.device(device)
    loaded = load(dataset, data_root)
    partition = partition or loaded.partition
    graphs = (
        file.read(partition_file, loaded)
        if partition_file
        else divide(loaded, partition, clients, data_seed)
    )
    models = options.models(model, loaded.graph.features, hidden, layers, loaded.classes, dropout)
    torch.set_num_threads(1)  # two threads on small products are slower than one
    total = sum(
        progress_steps(len(graphs), each, chosen_methods, chosen_seeds) for each in models.values()
    )
    results: dict[str, RunResult] = {}
    for caution in filter(None, (each.caution(len(graphs)) for each in chosen_methods.values())):
        console.say(caution, err=True)
    with console.progress(total, "Training") as bar:
        for name, network in models.items():
            trials = list(
                simulate(
                    graphs,
                    network,
                    chosen_methods,
                    chosen_seeds,
                    epochs=epochs,
                    rate=lr,
                    decay=weight_decay,
                    numbers=chosen_numbers,
                    sealed=sealed,
                    device=chosen_device,
                    progress=bar,
                )
            )
            trials.sort(key=lambda trial: list(chosen_methods).index(trial.method))  # as asked for
            settings = RunSettings(
                command=shlex.join(["pace", *sys.argv[1:]]),
                versions=versions(),
                dataset=loaded.name,
                partition=str(partition_file) if partition_file else partition,
                clients=len(graphs),
                seeds=tuple(chosen_seeds),
                device=chosen_device,
                data_seed=None if partition_file else data_seed,
                epochs=epochs,
                lr=lr,
                weight_decay=weight_decay,
                settings={
                    name: MethodSettings.of(
                        Federation(
                            network,
                            method,
                            epochs=epochs,
                            rate=lr,
                            decay=weight_decay,
                            numbers=chosen_numbers,
                        )
                    )
                    for name, method in chosen_methods.items()
                },
                model=ModelSettings(
                    kind=kind_of(network),
                    widths=tuple(network.widths),
                    dropout=network.dropout,
                    settings=settings_of(network),
                ),
                rank=options.rank(rank),
                numbers=options.written(chosen_methods, chosen_numbers),
                sealed=sealed,
            )
            results[name] = RunResult(settings, summarise(trials), tuple(trials))
    written = []
    for name, result in results.items():
        folder = out if out is None or len(results) == 1 else out / options.file_name(name)
        if folder:
            from pace.reports import run_page

            atomic.write(folder / NAME, result.encode())
            written += [run_page.write(folder), folder / NAME]
        if tensorboard:
            from pace.reports.tensorboard import write as write_tensorboard

            written.append(write_tensorboard(tensorboard, result))
    if as_json:
        objects = {name: result.plain() for name, result in results.items()}
        console.one_object(result.plain() if len(results) == 1 else {"models": objects})
        return
    to = console.console()
    if len(results) == 1:
        show(result, to)
    else:
        compare(results, to)
    if written:
        console.say(f"Written: {', '.join(map(str, written))}")
