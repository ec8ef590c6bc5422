"""Options that several commands share, and what a shell completes their values to."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from pace.registry import DATASETS, METHODS, MODELS, PARTITIONS

DEVICES = ("auto", "cpu", "cuda")
NUMBERS = ("float32", "float16", "int8")
GRAPH = ".graph"
ALLOWED = "PACE_ALLOW"  # read by `pace.io.plugins`, here and in workers


def words(*names: str) -> Callable[[str], list[str]]:
    """Complete to one of these."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def lists(*names: str) -> Callable[[str], list[str]]:
    """Complete the last word of a list that commas separate."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        return [
            f"{before}{comma}{name}"
            for name in names
            if name.startswith(last) and name not in taken
        ]

    return complete


def typed_datasets(text: str) -> str:
    """Allow the code that somebody names here as a dataset."""
    for name in text.split(","):
        DATASETS.allow(name)
    return text


def typed_partition(text: str | None) -> str | None:
    """Allow the code that somebody names here as a partition."""
    return text and PARTITIONS.allow(text)


def datasets(incomplete: str) -> list[str]:
    """Complete to a dataset's name or a .graph file, going down into folders."""
    return [*words(*DATASETS)(incomplete), *graphs(incomplete)]


def graphs(incomplete: str) -> list[str]:
    """Complete to a .graph file, going down into folders."""
    folder, slash, last = incomplete.rpartition("/")
    place = Path(f"{folder}/" if slash else ".")
    found: Sequence[Path] = sorted(place.iterdir()) if place.is_dir() else ()
    return [
        f"{folder}{slash}{path.name}{'/' if path.is_dir() else ''}"
        for path in found
        if path.name.startswith(last)
        and (path.suffix == GRAPH or (path.is_dir() and not path.name.startswith(".")))
    ]


As_json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Job_file = Annotated[Path, typer.Argument(help="The job, as everybody has it.", metavar="JOB")]
Dataset = Annotated[
    str,
    typer.Option(
        help="A dataset's name, or a .graph file of your own.",
        metavar="NAME",
        autocompletion=datasets,
        callback=typed_datasets,
    ),
]
Datasets = Annotated[
    str,
    typer.Option(
        "--datasets", "--dataset",
        help="Datasets, separated by commas.",
        metavar="NAMES",
        autocompletion=lists(*DATASETS),
        callback=typed_datasets,
    ),
]  # fmt: skip
Partition = Annotated[
    str | None,
    typer.Option(
        help="louvain, metis, dirichlet, or column (the graph's own clients); if not given, "
        "louvain, and column for a graph that is a federation by nature.",
        metavar="NAME",
        autocompletion=words(*PARTITIONS),
        callback=typed_partition,
    ),
]
Model = Annotated[
    str,
    typer.Option(
        help="A model: gcn, sage, gin, gat, sgc, appnp or mlp; with settings: gat:heads=4.",
        metavar="NAME",
        autocompletion=words(*MODELS),
    ),
]
Models = Annotated[
    str,
    typer.Option(
        "--models", "--model",
        help="Models: gcn, sage, gin, gat, sgc, appnp, mlp; several, by commas, are compared. "
        "Settings as in gat:heads=4.",
        metavar="NAMES",
        autocompletion=lists(*MODELS),
    ),
]  # fmt: skip
Methods = Annotated[
    str,
    typer.Option(
        help="Methods, separated by commas; all, ablations and beyond are groups. Settings "
        "as in fedprox:mu=0.1; your own as package.module:Name. `pace methods` lists them.",
        metavar="NAMES",
        autocompletion=lists(*METHODS.groups, *METHODS),
    ),
]
Seeds = Annotated[
    str,
    typer.Option(help="How many of the paper's five seeds, or a list of your own.", metavar="N"),
]
Clients = Annotated[int, typer.Option(help="How many clients.", metavar="N")]
Rank = Annotated[str, typer.Option(help="Rank of PACE's messages, or dense.", metavar="N")]
Method = Annotated[
    str,
    typer.Option(
        help="The one-round method, settings as in fedprox:mu=0.1; `pace methods` lists them.",
        metavar="NAME",
        autocompletion=words(*METHODS),
    ),
]
Device = Annotated[
    str,
    typer.Option(
        help="Where clients train: auto, cpu or cuda.",
        metavar="NAME",
        autocompletion=words(*DEVICES),
    ),
]
Numbers = Annotated[
    str | None,
    typer.Option(
        help="Numbers on the wire: float32, float16 or int8; each method's own if not given.",
        metavar="KIND",
        autocompletion=words(*NUMBERS),
    ),
]
Data_seed = Annotated[int, typer.Option(help="Seed of partition and masks.", metavar="N")]
Epochs = Annotated[
    int | None,
    typer.Option(help="Training steps; each method's own budget if not given.", metavar="N"),
]
Learning_rate = Annotated[
    float | None,
    typer.Option("--lr", help="Learning rate; each method's own if not given (0.01).", metavar="X"),
]
Weight_decay = Annotated[
    float | None,
    typer.Option(help="Weight decay; each method's own if not given (0.0005).", metavar="X"),
]


Dropout = Annotated[
    float | None, typer.Option(help="Dropout while training; 0.5 if not given.", metavar="P")
]


def allow(names: list[str] | None) -> list[str] | None:
    """Let this process and its children import what the job names; see `pace.io.plugins`."""
    before = [os.environ[ALLOWED]] if os.environ.get(ALLOWED) else []
    if names:
        os.environ[ALLOWED] = ",".join([*before, *names])
    return names


Allow = Annotated[
    list[str] | None,
    typer.Option(
        help="Code of somebody's own, package.module:Name, that a job may run here; repeat.",
        metavar="NAME",
        callback=allow,
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(
        help="The column of the edges with their weights (default: the codebook's, or none).",
        metavar="COLUMN",
    ),
]
Strangers = Annotated[
    str,
    typer.Option(help="Edges to nodes that are not in the table: refuse or drop.", metavar="NAME"),
]
Decimal = Annotated[
    str | None,
    typer.Option(help="Decimal comma or point, where it does not show.", metavar="NAME"),
]
Directions = Annotated[
    str | None,
    typer.Option(
        help="Let every edge go both ways, or keep its direction: both or keep (default: the "
        "codebook's, or both).",
        metavar="NAME",
    ),
]
Data_root = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the benchmarks (default: $PACE_DATA, or the cache).", metavar="FOLDER"
    ),
]
