"""Options that several commands share, and what a shell completes their values to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from pace.errors import SettingError
from pace.io.plugins import ENVIRONMENT
from pace.registry import DATASETS, METHODS, MODELS, PARTITIONS

NUMBERS = ("float32", "float16", "int8")


def option(about: str, metavar: str = "", *names: str, **settings: Any) -> Any:
    """An option, what its help says, and the word for its value; a flag has none."""
    return typer.Option(*names, help=about, metavar=metavar or None, **settings)


def argument(about: str, **settings: Any) -> Any:
    """An argument and what its help says."""
    return typer.Argument(help=about, **settings)


def words(*names: str) -> Callable[[str], list[str]]:
    """Complete to one of these."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def lists(*names: str) -> Callable[[str], list[str]]:
    """Complete the last word of a list that commas separate."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        others = [name for name in names if name not in before.split(",")]
        return [f"{before}{comma}{name}" for name in words(*others)(last)]

    return complete


def choice(about: str, metavar: str, *values: str) -> Any:
    """An option that takes, and completes to, one of these values."""

    def check(param: typer.CallbackParam, value: str | None) -> str | None:
        if value is not None and value not in values:
            raise SettingError(f"{param.opts[0]} is {value!r}, expected one of {', '.join(values)}")
        return value

    return option(about, metavar, autocompletion=words(*values), callback=check)


def graphs(incomplete: str) -> list[str]:
    """Complete to a .graph file, going down into folders."""
    folder, slash, last = incomplete.rpartition("/")
    below = [
        path for path in Path(f"{folder}{slash}" or ".").glob("*") if path.name.startswith(last)
    ]
    files = [path.name for path in below if path.suffix == ".graph"]
    folders = [f"{path.name}/" for path in below if path.is_dir() and path.name[0] != "."]
    return [f"{folder}{slash}{name}" for name in sorted({*files, *folders})]


def datasets(incomplete: str) -> list[str]:
    """Complete to a dataset's name or a .graph file."""
    return [*words(*DATASETS)(incomplete), *graphs(incomplete)]


def typed_datasets(text: str) -> str:
    """Allow the code that somebody names here as a dataset."""
    for name in text.split(","):
        DATASETS.allow(name)
    return text


def allow(names: list[str] | None) -> list[str] | None:
    """Let this process and its children import what the job names; see `pace.io.plugins`."""
    if names:
        before = os.environ.get(ENVIRONMENT)
        os.environ[ENVIRONMENT] = ",".join([*filter(None, [before]), *names])
    return names


As_json = Annotated[bool, option("Print one JSON object.", "", "--json")]
Job_file = Annotated[Path, argument("The job, as everybody has it.", metavar="JOB")]
Sealed = Annotated[bool, option("The server sees sums over all clients only.", "", "--sealed")]
Clients = Annotated[int, option("How many clients.", "N")]
Rank = Annotated[str, option("Rank of PACE's messages, or dense.", "N")]
Seeds = Annotated[str, option("How many of the paper's five seeds, or a list of your own.", "N")]
Data_seed = Annotated[int, option("Seed of partition and masks.", "N")]
Epochs = Annotated[
    int | None, option("Training steps; each method's own budget if not given.", "N")
]
Learning_rate = Annotated[
    float | None, option("Learning rate; each method's own if not given (0.01).", "X", "--lr")
]
Weight_decay = Annotated[
    float | None, option("Weight decay; each method's own if not given (0.0005).", "X")
]
Dropout = Annotated[float | None, option("Dropout while training; 0.5 if not given.", "P")]
Data_root = Annotated[
    Path | None, option("Folder of the benchmarks (default: $PACE_DATA, or the cache).", "FOLDER")
]
Weight = Annotated[
    str | None,
    option(
        "The column of the edges with their weights (default: the codebook's, or none).", "COLUMN"
    ),
]
Strangers = Annotated[
    str, option("Edges to nodes that are not in the table: refuse or drop.", "NAME")
]
Decimal = Annotated[str | None, option("Decimal comma or point, where it does not show.", "NAME")]
Directions = Annotated[
    str | None,
    option(
        "Let every edge go both ways, or keep its direction: both or keep (default: the "
        "codebook's, or both).",
        "NAME",
    ),
]
Device = Annotated[
    str, choice("Where clients train: auto, cpu or cuda.", "NAME", "auto", "cpu", "cuda")
]
Numbers = Annotated[
    str | None,
    choice(
        "Numbers on the wire: float32, float16 or int8; each method's own if not given.",
        "KIND",
        *NUMBERS,
    ),
]
Dataset = Annotated[
    str,
    option(
        "A dataset's name, or a .graph file of your own.",
        "NAME",
        autocompletion=datasets,
        callback=typed_datasets,
    ),
]
Datasets = Annotated[
    str,
    option(
        "Datasets, separated by commas.", "NAMES", "--datasets", "--dataset",
        autocompletion=lists(*DATASETS),
        callback=typed_datasets,
    ),
]  # fmt: skip
Partition = Annotated[
    str | None,
    option(
        "louvain, metis, dirichlet, or column (the graph's own clients); if not given, louvain, "
        "and column for a graph that is a federation by nature.",
        "NAME",
        autocompletion=words(*PARTITIONS),
        callback=lambda name: name and PARTITIONS.allow(name),
    ),
]
Model = Annotated[
    str,
    option(
        "A model: gcn, sage, gin, gat, sgc, appnp or mlp; with settings: gat:heads=4.",
        "NAME",
        autocompletion=words(*MODELS),
    ),
]
Models = Annotated[
    str,
    option(
        "Models: gcn, sage, gin, gat, sgc, appnp, mlp; several, by commas, are compared. "
        "Settings as in gat:heads=4.",
        "NAMES", "--models", "--model",
        autocompletion=lists(*MODELS),
    ),
]  # fmt: skip
Method = Annotated[
    str,
    option(
        "The one-round method, settings as in fedprox:mu=0.1; `pace methods` lists them.",
        "NAME",
        autocompletion=words(*METHODS),
    ),
]
Methods = Annotated[
    str,
    option(
        "Methods, separated by commas; all, ablations and beyond are groups. Settings as in "
        "fedprox:mu=0.1; your own as package.module:Name. `pace methods` lists them.",
        "NAMES",
        autocompletion=lists(*METHODS.groups, *METHODS),
    ),
]
Allow = Annotated[
    list[str] | None,
    option(
        "Code of somebody's own, package.module:Name, that a job may run here; repeat.",
        "NAME",
        callback=allow,
    ),
]
