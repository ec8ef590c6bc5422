"""Options that several commands share, and what a shell completes their values to."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from pace.errors import SettingError
from pace.io import ENVIRONMENT, one_line
from pace.registry import DATASETS, METHODS, MODELS, PARTITIONS, Registry

NUMBERS = ("float32", "float16", "int8")
MODEL_NAMES = f"{', '.join(MODELS)}; settings as in gat:heads=4."
Complete = Callable[[str], list[str]]


def option(
    about: str, metavar: str = "", *names: str, complete: Complete | None = None, **settings: Any
) -> Any:
    """An option, what its help says, and the word for its value; a flag has none."""
    settings |= {"help": about, "metavar": metavar or None, "autocompletion": complete}
    if metavar in ("COLUMN", "COLUMNS"):
        settings["callback"] = lambda name: name and one_line(name)
    return typer.Option(*names, **settings)


def choice(about: str, *values: str) -> Any:
    """An option that takes, and completes to, one of these values; its help names them."""

    def check(param: typer.CallbackParam, value: str | None) -> str | None:
        if value is not None and value not in values:
            raise SettingError(f"{param.opts[0]} is {value!r}, expected one of {', '.join(values)}")
        return value

    listed = f"{about}: {', '.join(values[:-1])} or {values[-1]}."
    return option(listed, "NAME", complete=words(*values), callback=check)


def argument(about: str, **settings: Any) -> Any:
    """An argument and what its help says."""
    return typer.Argument(help=about, **settings)


def words(*names: str | Registry) -> Complete:
    """Complete to one of these; a registry asks what is installed only when it is needed."""
    return lambda incomplete: [name for name in _flat(names) if name.startswith(incomplete)]


def _flat(names: Iterable[str | Registry]) -> list[str]:
    return [one for name in names for one in ([name] if isinstance(name, str) else name)]


def lists(*names: str | Registry) -> Complete:
    """Complete the last word of a list that commas separate."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        others = [name for name in _flat(names) if name not in before.split(",")]
        return [f"{before}{comma}{name}" for name in words(*others)(last)]

    return complete


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
    return [*words(DATASETS)(incomplete), *graphs(incomplete)]


def typed(registry: Registry) -> Callable[[str | None], str | None]:
    """Allow code by name."""

    def allow(text: str | None) -> str | None:
        for name in text.split(",") if text else ():
            registry.allow(name)
        return text

    return allow


def allow(names: list[str] | None) -> list[str] | None:
    """Let this process and its children import what the job names; see `pace.io.plugins`."""
    if names:
        before = os.environ.get(ENVIRONMENT)
        os.environ[ENVIRONMENT] = ",".join([*filter(None, [before]), *names])
    return names


As_json = Annotated[bool, option("Print one JSON object.", "", "--json")]
Job_file = Annotated[Path, argument("The job, as everybody has it.", metavar="JOB")]
Sealed = Annotated[bool, option("The server sees sums over all clients only.", "", "--sealed")]
Without_promise = Annotated[
    bool, option("Take a method that may harm its receivers.", "", "--without-promise")
]
Clients = Annotated[int, option("How many clients.", "N")]
Rank = Annotated[str, option("Rank of PACE's messages, or dense.", "N")]
Job_rank = Annotated[str | None, option("Rank of PACE's messages, or dense.", "N")]
Seeds = Annotated[str, option("How many of the paper's five seeds, or a list of your own.", "N")]
Data_seed = Annotated[int, option("Seed of partition and masks.", "N")]
Epochs = Annotated[int | None, option("Training steps (default: the method's).", "N")]
Rate = Annotated[float | None, option("Learning rate (default: the method's).", "X", "--lr")]
Weight_decay = Annotated[float | None, option("Weight decay (default: the method's).", "X")]
Dropout = Annotated[float | None, option("Dropout while training (default: 0.5).", "P")]
Device = Annotated[str, choice("Where clients train", "auto", "cpu", "cuda")]
Numbers = Annotated[str | None, choice("Numbers on the wire (default: the method's)", *NUMBERS)]
Data_root = Annotated[
    Path | None, option("Folder of the benchmarks (default: $PACE_DATA, or the cache).", "FOLDER")
]
Weight = Annotated[str | None, option("The edges' weights (default: the codebook's).", "COLUMN")]
Strangers = Annotated[str, option("Edges to nodes not in the table: refuse or drop.", "NAME")]
Decimal = Annotated[str | None, option("Decimal comma or point, if it is unclear.", "NAME")]
Directions = Annotated[
    str | None,
    option("Edges both ways or as they are: both or keep (default: the codebook's).", "NAME"),
]
Dataset = Annotated[
    str, option("A dataset or .graph file.", "NAME", complete=datasets, callback=typed(DATASETS))
]
Datasets = Annotated[
    str,
    option(
        "Datasets, separated by commas.", "NAMES", "--datasets", "--dataset",
        complete=lists(DATASETS), callback=typed(DATASETS),
    ),
]  # fmt: skip
Partition = Annotated[
    str | None,
    option(
        "louvain, metis, dirichlet or column, the graph's own clients (default: the dataset's).",
        "NAME",
        complete=words(PARTITIONS),
        callback=typed(PARTITIONS),
    ),
]
Model = Annotated[str, option(f"A model: {MODEL_NAMES}", "NAME", complete=words(MODELS))]
Models = Annotated[
    str, option(f"Models: {MODEL_NAMES}", "NAMES", "--models", "--model", complete=lists(MODELS))
]
Method = Annotated[
    str | None,
    option(
        "The method (default: pace-full, sealed pace-full-sums; pace with --rank).",
        "NAME",
        complete=words(METHODS),
    ),
]
Methods = Annotated[
    str,
    option(
        f"Methods, or the groups {', '.join(METHODS.groups)}; settings as in fedprox:mu=0.1, your "
        "own as package.module:Name. `pace methods` lists them.",
        "NAMES",
        complete=lists(*METHODS.groups, METHODS),
    ),
]
With = Annotated[
    Path | None,
    option("Your earlier .graph, to whose nodes the table's edges may lead.", "FILE", "--with"),
]
Mapping = Annotated[
    Path | None, option("How your columns become the agreed ones (default: the model's).", "FILE")
]
Replace = Annotated[bool, option("Replace existing files.", "", "--replace")]
Allow = Annotated[
    list[str] | None, option("Code that a job may run here; repeat.", "MODULE:NAME", callback=allow)
]
Withdrawals = Annotated[list[Path] | None, option("A signed withdrawal to obey; repeat.", "FILE")]
Added = Annotated[
    list[str] | None, option("A new participant: NAME.pub, or NAME=KEY.pub; repeat.", "KEYS")
]
Removed = Annotated[list[str] | None, option("A participant to take off the list; repeat.", "NAME")]
