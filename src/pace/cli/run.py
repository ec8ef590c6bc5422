"""`pace run`: a whole federation in this process."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pace.cli import console, given, options
from pace.errors import SettingError

if TYPE_CHECKING:
    from pace.models import Model
    from pace.protocol.method import Method
    from pace.reports.run_result import RunResult


def run(
    dataset: given.Dataset = "synthetic",
    partition: given.Partition = None,
    partition_file: Annotated[
        Path | None, given.option("Use this partition (from `pace partition`).", "FILE")
    ] = None,
    clients: given.Clients = 10,
    model: given.Models = "gcn",
    methods: given.Methods = "local,fedavg,pace",
    rank: given.Rank = "6",
    seeds: given.Seeds = "5",
    data_seed: given.Data_seed = 2024,
    epochs: given.Epochs = None,
    lr: given.Learning_rate = None,
    weight_decay: given.Weight_decay = None,
    hidden: Annotated[int, given.option("Width of the hidden layers.", "N")] = 64,
    layers: Annotated[int, given.option("Number of layers, or an sgc's hops.", "N")] = 2,
    dropout: given.Dropout = None,
    numbers: given.Numbers = None,
    sealed: given.Sealed = False,
    device: given.Device = "auto",
    data_root: given.Data_root = None,
    out: Annotated[
        Path | None,
        given.option("Write results.json and index.html, a page of it, to this folder.", "FOLDER"),
    ] = None,
    tensorboard: Annotated[
        Path | None,
        given.option("Log the run for TensorBoard in a new folder of this one.", "FOLDER"),
    ] = None,
    as_json: given.As_json = False,
) -> None:
    """Run a whole federation in this process: every client, the server, every message in bytes.

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
    from pace.datasets import load
    from pace.datasets.partition import divide
    from pace.datasets.partition.file import read_partition
    from pace.reports import run_views
    from pace.runtimes.simulation import progress_steps, simulate

    options.folder("--out", out)
    options.folder("--tensorboard", tensorboard)
    if tensorboard:
        options.need("--tensorboard", "tracking", "tensorboard")
    chosen_seeds = options.seeds(seeds)
    chosen = chosen_methods(methods, rank)
    where = options.device(device)
    loaded = load(dataset, data_root)
    if partition_file:
        graphs = read_partition(partition_file, loaded)
    else:
        graphs = divide(loaded, partition, clients, data_seed)
    networks = chosen_models(model, loaded.graph.features, hidden, layers, loaded.classes)
    networks = {name: options.with_dropout(network, dropout) for name, network in networks.items()}
    for method in chosen.values():
        if caution := method.caution(len(graphs)):
            console.say(caution, err=True)
    steps = [progress_steps(len(graphs), m, chosen, chosen_seeds) for m in networks.values()]
    with console.progress(sum(steps), "Training") as bar:
        results = {
            name: simulate(
                graphs,
                chosen,
                model=network,
                seeds=chosen_seeds,
                device=where,
                command=shlex.join(["pace", *sys.argv[1:]]),
                progress=bar,
                epochs=epochs,
                rate=lr,
                decay=weight_decay,
                numbers=numbers or "",
                sealed=sealed,
            )
            for name, network in networks.items()
        }
    written = write(results, out, tensorboard)
    single = next(iter(results.values())) if len(results) == 1 else None
    if as_json:
        objects = {name: result.plain() for name, result in results.items()}
        console.one_object(single.plain() if single else {"models": objects})
        return
    if single:
        run_views.show(single, console.console())
    else:
        run_views.model_table(results).show(console.console())
    if written:
        console.say(f"Written: {', '.join(map(str, written))}")


def chosen_methods(names: str, rank: str) -> dict[str, Method]:
    """The named methods, in order, each once."""
    from pace.methods import make

    listed = options.method_names(names)
    if not listed:
        raise SettingError("--methods is empty: name at least one method, such as pace")
    return {name: make(name, options.rank(rank)) for name in listed}


def chosen_models(
    names: str, features: int, hidden: int, layers: int, classes: int
) -> dict[str, Model]:
    """The named models, in order, each once, with `layers - 1` hidden layers of one width."""
    from pace.models import MODELS, sized

    options.at_least_one("--layers", layers)
    options.at_least_one("--hidden", hidden)
    listed = options.words(names)
    if not listed:
        raise SettingError("--model is empty: name one, such as gcn")
    return {name: sized(MODELS.allow(name), features, hidden, layers, classes) for name in listed}


def write(results: dict[str, RunResult], out: Path | None, tensorboard: Path | None) -> list[Path]:
    """Write what was asked for: of several models each in a folder, `gat:heads=4` in gat_heads=4."""
    from pace.reports.tensorboard import write_tensorboard

    written = []
    for name, result in results.items():
        if out:
            folder = out if len(results) == 1 else out / re.sub(r"[^\w.=,-]", "_", name)
            written += [result.page(folder), result.write(folder)]
        if tensorboard:
            written.append(write_tensorboard(tensorboard, result))
    return written
