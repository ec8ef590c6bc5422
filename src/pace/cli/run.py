"""`pace run`, `pace partition`, `pace methods`: what needs no other party."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pace
from pace.cli import given
from pace.cli.commands import added_commands
from pace.cli.given import argument, option
from pace.errors import SettingError
from pace.io import terminal as console
from pace.registry import METHODS, MODELS, TRACKERS

UNFINISHED = "unfinished"  # a folder of trained models, until the run is written
ALWAYS = "local,pace,alone"  # what --against holds a method to


def run(
    dataset: given.Dataset = "synthetic",
    partition: given.Partition = None,
    partition_file: Annotated[Path | None, option("From `pace partition --out`.")] = None,
    clients: given.Clients = 10,
    model: given.Models = "gcn",
    methods: given.Methods = "local,fedavg,pace,pace-full",
    rank: given.Rank = "6",
    seeds: given.Seeds = "5",
    data_seed: given.Data_seed = 2024,
    epochs: given.Epochs = None,
    lr: given.Rate = None,
    weight_decay: given.Weight_decay = None,
    hidden: Annotated[int, option("Width of the hidden layers.", "N")] = 64,
    layers: Annotated[int, option("Number of layers, or an sgc's hops.", "N")] = 2,
    dropout: given.Dropout = None,
    numbers: given.Numbers = None,
    sealed: given.Sealed = False,
    device: given.Device = "auto",
    data_root: given.Data_root = None,
    out: Annotated[Path | None, option("Write results.json and its page.", "FOLDER")] = None,
    track: Annotated[
        list[str] | None,
        option("Log for tensorboard=FOLDER or mlflow=FILE (pace-study); repeat.", "NAME=WHERE"),
    ] = None,
    replace: given.Replace = False,
    against: Annotated[
        str | None, option("Join a part of the study, such as field (pace-study).", "PART")
    ] = None,
    as_json: given.As_json = False,
) -> None:
    """Run a whole federation in this process, every message in bytes.

    With `--out`, models are kept as they are trained: interrupted, the same command goes on.

    Examples:
        pace run
        pace run --dataset synthetic-clash
        pace run --dataset cora --methods all --out results/
        pace run --model gat:heads=4 --hidden 32 --layers 3
        pace run --models gcn,sage,mlp --seeds 2 --json
        pace run --methods fedprox:mu=0.1,fedprox:mu=0.01,pace --lr 0.02
        pace run --methods pace,my_methods.ties:Ties:density=0.3
        pace run --numbers int8
        pace run --methods fedavg,pace --sealed
        pace run --track tensorboard=runs
        pace run --methods my_methods.ties:Ties --against field --dataset cora
    """
    if against:
        setting = {"partition": partition, "clients": clients if partition else None}
        computing = {"epochs": epochs, "device": device, "data_root": data_root}
        told = {"datasets": dataset, "out": out or Path("results"), "as_json": as_json}
        run_against(against, methods=f"{ALWAYS},{methods}", **setting, **computing, **told)
        return
    check_out(out, replace=replace)
    trackers = [tracker(text) for text in track or ()]
    chosen_seeds, where = given.seeds(seeds), given.device(device)
    make = pace.methods.make
    chosen = {name: make(name, given.rank(rank)) for name in given.method_names(methods)}
    if not chosen:
        raise SettingError("--methods is empty: name at least one method, such as pace")
    loaded = pace.load(dataset, data_root)
    if partition_file:
        graphs = pace.datasets.read_partition(partition_file, loaded)
    else:
        graphs = pace.divide(loaded, partition, clients, data_seed)
    models = sized_models(model, (loaded.graph.features, loaded.classes), hidden, layers, dropout)
    if where == "cpu":
        for network in models.values():
            foretell(loaded.graph, network, chosen, len(chosen_seeds), epochs)
    count = pace.simulation.progress_steps
    steps = [count(len(graphs), net, chosen, chosen_seeds) for net in models.values()]
    with console.progress(sum(steps), "Training") as bar:
        results = {
            name: pace.simulate(
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
            for name, network in models.items()
        }
    tell(results, write(results, out, trackers), as_json)


def foretell(
    graph: pace.Graph,
    model: pace.Model,
    methods: Mapping[str, pace.Method],
    seeds: int,
    epochs: int | None,
) -> None:
    """Say what a large run is expected to take; one that does not fit is refused."""
    trained = {
        name: pace.Federation(model, method, epochs=epochs) for name, method in methods.items()
    }
    alike = pace.simulation.by_training(trained).values()
    work = pace.forecast.forecast_run(graph, [trained[names[0]] for names in alike], seeds)
    if work.worth_telling:
        console.say(work, err=True)


def check_out(out: Path | None, *, replace: bool) -> None:
    """Refuse a folder that cannot be written to, or that holds an earlier run."""
    given.folder("--out", out)
    if out and not replace and (out / "results.json").exists():
        raise SettingError(f"{out} holds an earlier run: choose another --out, or say --replace")


def tracker(text: str) -> Callable[[pace.RunResult], object]:
    """What `NAME=WHERE` names: it logs a run, and gives the place."""
    name, _, where = text.partition("=")
    if not where:
        raise SettingError(f"--track is {text!r}, expected NAME=WHERE, such as tensorboard=runs")
    log: Callable[[pace.RunResult], object] = TRACKERS.factory(TRACKERS.allow(name))(where)
    return log


def run_against(part: str, **given: Any) -> None:
    """Compute the methods' cells of a part of the study, and show them among the others."""
    if "reproduce" not in added_commands():
        raise SettingError("--against needs the study: pip install pace-study")
    added_commands()["reproduce"].load()(parts=[part], seeds="1", **given)


def sized_models(
    names: str, sizes: tuple[int, int], hidden: int, layers: int, dropout: float | None
) -> dict[str, pace.Model]:
    """The named models, with `layers - 1` hidden layers between the features and the classes."""
    given.at_least_one("--layers", layers)
    given.at_least_one("--hidden", hidden)
    features, classes = sizes
    models = {
        name: pace.models.sized(MODELS.allow(name), features, hidden, layers, classes)
        for name in given.words(names)
    }
    if not models:
        raise SettingError("--model is empty: name one, such as gcn")
    return {name: given.with_dropout(model, dropout) for name, model in models.items()}


def write(
    results: dict[str, pace.RunResult], out: Path | None, trackers: Sequence[Callable[..., object]]
) -> list[object]:
    """Of several models each has a folder: `gat:heads=4` is in gat_heads=4."""
    written: list[object] = []
    for name, result in results.items():
        if out:
            folder = out if len(results) == 1 else out / re.sub(r"[^\w.=,-]", "_", name)
            written += [result.page(folder), result.write(folder)]
        written += [log(result) for log in trackers]
    if out:
        shutil.rmtree(out / UNFINISHED, ignore_errors=True)
    return written


def tell(results: dict[str, pace.RunResult], written: list[object], as_json: bool) -> None:
    (result, *others), views = results.values(), pace.reports.run_views
    lines = [f"Written: {', '.join(map(str, written))}"] if written else []

    def plain() -> dict[str, Any]:
        models = {name: result.plain() for name, result in results.items()}
        return {"models": models} if others else result.plain()

    show = views.model_table(results).show if others else result.show
    console.answer(plain, show, *lines, as_json=as_json)


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

    Examples:
        pace partition --dataset cora --partition louvain --clients 10 --out cora.json
        pace partition --dataset cora --clients 5 --graphs sites
        pace partition --dataset mine.graph --partition column
        pace run --dataset cora --partition-file cora.json
    """
    datasets = pace.datasets
    loaded = pace.load(dataset, data_root)
    partition = partition or loaded.partition
    own = len(loaded.names.clients)
    if partition == "column" and own and clients not in (None, own):
        raise SettingError(
            f"--clients is {clients}, but the column of {dataset} names {own} clients: "
            "leave --clients out"
        )
    division = pace.divide(loaded, partition, 10 if clients is None else clients, data_seed)
    described = datasets.describe_clients(loaded, division)
    if out:
        datasets.write_partition(out, loaded, division)
    if graphs:
        datasets.write_graphs(graphs, loaded, division)
    edges = loaded.graph.edges.shape[1] // 2
    facts = {
        "dataset": loaded.name,
        "partition": partition,
        "data_seed": data_seed,
        "nodes": loaded.graph.nodes,
        "edges": edges,
        "edges_kept": sum(client["edges"] for client in described),
        "clients": described,
    }
    title = f"{loaded.title or loaded.name}, {partition}, {console.many(len(described), 'client')}"
    written = [f"Written: {path}" for path in (out, graphs) if path]
    show = client_table(described, title, edges).show
    console.answer(facts, show, *written, as_json=as_json)


def client_table(
    clients: Sequence[Mapping[str, Any]], title: str, edges: int
) -> pace.reports.Table:
    """One row a client. Bars are the classes in order, each against the client's largest."""
    counted = ("nodes", "edges", "lost", "train", "val", "test")
    numbers = [[client[name] for name in counted] for client in clients]
    nodes, kept, _, *masks = map(sum, zip(*numbers, strict=True))
    labels = [client["labels"] for client in clients]
    names = [*(client["name"] for client in clients), "all"]
    numbers.append([nodes, kept, edges - kept, *masks])
    labels.append(list(map(sum, zip(*labels, strict=True))))
    bars = pace.reports.run_views.bars
    histograms = [bars([count / max([1, *own]) for count in own]) for own in labels]
    lines = zip(names, numbers, histograms, strict=True)
    heads = ["Client", "Nodes", "Edges", "Lost", "Train", "Val", "Test", "Labels"]
    rows = [[name, *map(str, row), bar] for name, row, bar in lines]
    return pace.reports.Table.of(title, heads, rows, sums=1)


def methods(
    names: Annotated[
        list[str] | None,
        argument(
            "Only these, with their settings (default: all).",
            autocompletion=given.one_of(*METHODS.groups, METHODS),
        ),
    ] = None,
    as_json: given.As_json = False,
) -> None:
    """List the methods, built in and of installed packages, with their settings.

    Examples:
        pace methods
        pace methods fedprox pace-ridge
        pace methods --json

    A method of your own is a class in a file: `pace methods package.module:Name` shows it, `pace run
    --methods package.module:Name` runs it. A package lists its methods as entry points of the group
    pace.methods.
    """
    about, every = pace.methods.about_method, pace.methods.every_method
    chosen = [method for name in names or () for method in given.method_names(name)]
    listed = [about(name) for name in chosen] if names else every()
    if as_json:
        console.one_object({"methods": [method.plain() for method in listed]})
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
