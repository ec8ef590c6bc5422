"""`pace run`, `pace partition`, `pace methods`: what needs no other party."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import pace
from pace.cli import given
from pace.cli.commands import added_commands
from pace.cli.given import argument, option
from pace.errors import SettingError
from pace.io import terminal as console
from pace.registry import METHODS, MODELS, TRACKERS

TRACK = "Log for tensorboard=FOLDER or mlflow=FILE; repeat."
# Those of its options that `--against` takes.
JOINING = {"against", "methods", "dataset", "partition", "clients"}
JOINING |= {"epochs", "device", "data_root", "out", "as_json"}
UNFINISHED = "unfinished"  # a folder of trained models, until the run is written


def run(
    context: typer.Context,
    dataset: given.Dataset = "synthetic",
    partition: given.Partition = None,
    partition_file: Annotated[Path | None, option("From `pace partition --out`.")] = None,
    clients: given.Clients = 10,
    model: given.Model = "gcn",
    methods: given.Methods = "local,fedavg,pace,pace-full",
    rank: Annotated[str, given.RANK] = "6",
    seeds: given.Seeds = "5",
    data_seed: given.Data_seed = 2024,
    epochs: given.Epochs = None,
    lr: given.Rate = None,
    weight_decay: given.Weight_decay = None,
    hidden: Annotated[int, option("Width of the hidden layers.", "N", min=1)] = 64,
    layers: Annotated[int, option("Number of layers, or an sgc's hops.", "N", min=1)] = 2,
    dropout: given.Dropout = None,
    numbers: given.Numbers = None,
    sealed: given.Sealed = False,
    device: given.Device = "auto",
    data_root: given.Data_root = None,
    out: Annotated[Path | None, option("Write results.json and its page.", "FOLDER")] = None,
    track: Annotated[list[str] | None, option(TRACK, "NAME=WHERE")] = None,
    replace: given.Replace = False,
    against: Annotated[str | None, option("Join a study, such as field.", "PART")] = None,
    as_json: given.As_json = False,
) -> None:
    """Run a whole federation in this process, every message in bytes.

    With `--out`, models are kept as they are trained: interrupted, the same command goes on.

    pace run
    pace run --dataset cora --methods all --out results/
    pace run --model gat:heads=4 --hidden 32 --layers 3
    pace run --methods fedprox:mu=0.1,fedprox:mu=0.01,pace --lr 0.02
    pace run --methods pace,my_methods.ties:Ties:density=0.3
    pace run --track tensorboard=runs
    pace run --methods my_methods.ties:Ties --against field --dataset cora
    """
    if against:
        own = clients if "clients" in joining(context) else None
        setting = {"partition": partition, "clients": own, "datasets": dataset, "epochs": epochs}
        output = {"out": out or Path("results"), "device": device, "as_json": as_json}
        run_against(against, methods=f"local,pace,alone,{methods}", **setting, **output)
        return
    if out and not replace and (out / pace.reports.NAME).exists():
        raise SettingError(f"{out} holds an earlier run: choose another --out, or say --replace")
    trackers = [tracker(text) for text in track or ()]
    chosen_seeds, where = given.seeds(seeds), given.device(device)
    make = pace.methods.make
    chosen = {name: make(name, given.rank(rank)) for name in given.method_names(methods)}
    if not chosen:
        raise SettingError("--methods is empty: name at least one method, such as pace")
    loaded = pace.load(dataset)
    if partition_file:
        graphs = pace.datasets.read_partition(partition_file, loaded)
    else:
        graphs = pace.divide(loaded, partition, clients, data_seed)
    shape = (loaded.graph.features, hidden, layers, loaded.classes)
    network = given.with_dropout(pace.models.sized(MODELS.allow(model), *shape), dropout)
    runs = {n: pace.Federation(network, m, epochs=epochs) for n, m in chosen.items()}
    alike = [runs[first] for first, *_ in pace.simulation.by_training(runs).values()]
    if where == "cpu":
        given.foretell(pace.forecast.forecast_run(loaded.graph, alike, len(chosen_seeds)))
    if out:  # before the work is done, and not after it
        (out / UNFINISHED).mkdir(parents=True, exist_ok=True)
    steps = len(chosen_seeds) * (len(graphs) * len(alike) + len(chosen))
    with console.progress(steps, "Training") as bar:
        result = pace.simulate(
            graphs,
            chosen,
            model=network,
            seeds=chosen_seeds,
            device=where,
            command=shlex.join(["pace", *sys.argv[1:]]),
            progress=bar,
            checkpoints=out and out / UNFINISHED,
            epochs=epochs,
            rate=lr,
            decay=weight_decay,
            numbers=numbers or "",
            sealed=sealed,
        )
    written: list[object] = [result.page(out), result.write(out)] if out else []
    if out:  # in place of the models that were kept to go on from
        shutil.rmtree(out / UNFINISHED, ignore_errors=True)
    written += [log(result) for log in trackers]
    lines = [f"Written: {', '.join(map(str, written))}"] if written else []
    console.answer(result.plain, result.show, *lines, as_json=as_json)


def joining(context: typer.Context) -> set[str]:
    """The options that were given, which must be such as a study leaves open."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    named = {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}
    if flags := [own.opts[0] for own in context.command.params if own.name in named - JOINING]:
        raise SettingError(f"--against keeps to the study's protocol: leave out {', '.join(flags)}")
    return named


def run_against(part: str, **options: Any) -> None:
    """Compute the methods' cells of a part of the study, and show them among the others."""
    if "reproduce" not in added_commands():
        raise SettingError("--against needs the study: pip install pace-study")
    added_commands()["reproduce"].load()(parts=[part], seeds="1", **options)


def tracker(text: str) -> Callable[[pace.RunResult], object]:
    """What `NAME=WHERE` names: it logs a run, and gives the place."""
    name, _, where = text.partition("=")
    if not where:
        raise SettingError(f"--track is {text!r}, expected NAME=WHERE, such as tensorboard=runs")
    log: Callable[[pace.RunResult], object] = TRACKERS.factory(TRACKERS.allow(name))(where)
    return log


def partition(
    dataset: given.Dataset = "synthetic",
    partition: given.Partition = None,
    clients: Annotated[int | None, option("How many (default: 10, or the column's).", "N")] = None,
    data_seed: given.Data_seed = 2024,
    data_root: given.Data_root = None,
    out: Annotated[Path | None, option("Write it for `run --partition-file`.")] = None,
    graphs: Annotated[Path | None, option("Write each client's .graph here.", "FOLDER")] = None,
    as_json: given.As_json = False,
) -> None:
    """Divide a graph among clients: show what each one gets, write it to a file.

    pace partition --dataset cora --partition louvain --clients 10 --out cora.json
    pace partition --dataset cora --clients 5 --graphs sites
    pace partition --dataset mine.graph --partition column
    """
    loaded = pace.load(dataset)
    partition, own = partition or loaded.partition, len(loaded.names.clients)
    if partition == "column" and own and clients not in (None, own):
        raise SettingError(f"--clients is {clients}, but {dataset} has {own}: leave --clients out")
    division = pace.divide(loaded, partition, 10 if clients is None else clients, data_seed)
    described = pace.datasets.describe_clients(loaded, division)
    if out:
        pace.datasets.write_partition(out, loaded, division)
    if graphs:
        pace.datasets.write_graphs(graphs, loaded, division)
    edges = loaded.graph.edges.shape[1] // 2
    facts = {
        "dataset": loaded.name,
        "partition": division.partition,
        "data_seed": data_seed,
        "nodes": loaded.graph.nodes,
        "edges": edges,
        "edges_kept": sum(client["edges"] for client in described),
        "clients": described,
    }
    counted = console.many(len(described), "client")
    title = f"{loaded.title or loaded.name}, {division.partition}, {counted}"
    written = [f"Written: {path}" for path in (out, graphs) if path]
    console.answer(facts, client_table(described, title, edges).show, *written, as_json=as_json)


def client_table(clients: Sequence[Mapping[str, Any]], name: str, edges: int) -> pace.reports.Table:
    """One row a client. Bars are the classes in order, each against the client's largest."""
    counted = ("nodes", "edges", "lost", "train", "val", "test")
    total: dict[str, Any] = {name: sum(client[name] for client in clients) for name in counted}
    labels = [*map(sum, zip(*(client["labels"] for client in clients), strict=True))]
    total |= {"name": "all", "lost": edges - total["edges"], "labels": labels}
    rows = []
    for client in (*clients, total):
        shares = [count / max([1, *client["labels"]]) for count in client["labels"]]
        bars = pace.reports.bars(shares)
        rows.append([client["name"], *(str(client[name]) for name in counted), bars])
    heads = ["Client", "Nodes", "Edges", "Lost", "Train", "Val", "Test", "Labels"]
    return pace.reports.Table.of(name, heads, rows, sums=1)


def methods(
    names: Annotated[
        list[str] | None, argument("Only these, with their settings (default: all).", **given.NAMED)
    ] = None,
    as_json: given.As_json = False,
) -> None:
    """List the methods, built in and of installed packages, with their settings.

    pace methods
    pace methods fedprox pace-ridge

    A method of your own is a class in a file: `pace methods package.module:Name` shows it, `pace run
    --methods package.module:Name` runs it. A package lists its methods as entry points of the group
    pace.methods.
    """
    chosen = [method for name in names or () for method in given.method_names(name)]
    listed = [*map(pace.methods.about_method, chosen)] if names else pace.methods.every_method()
    if as_json:
        console.answer({"methods": listed}, as_json=True)
    elif names:
        for method in listed:
            console.facts(method.name, method.facts(), console.console())
    else:
        heads = ["Method", "Upload", "Sealed", "What it is"]
        console.console().print(
            pace.reports.Table.of("", heads, [method.row for method in listed]),
            "Upload is the share of a dense model, for the paper's on Cora.",
            *(f"{name}: {', '.join(members)}" for name, members in METHODS.groups.items()),
        )
