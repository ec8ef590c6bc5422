"""Options that several commands share, what a shell completes their values to, and what these mean.

What needs torch is imported when a command asks for a meaning.
"""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import pace
from pace.errors import SettingError
from pace.io import one_line, plugins, say
from pace.registry import DATASETS, METHODS, MODELS, PARTITIONS, Registry


def option(about: str, metavar: str = "FILE", *names: str, **settings: Any) -> Any:
    """An option, what its help says, and the word for its value; a flag has none."""
    settings |= {"help": about, "metavar": metavar or None}
    if metavar in ("COLUMN", "COLUMNS"):
        settings["callback"] = lambda name: name and one_line(name)
    return typer.Option(*names, **settings)


def argument(about: str, **settings: Any) -> Any:
    return typer.Argument(help=about, **settings)


def one_of(*listed: str | Registry) -> Callable[[str], list[str]]:
    """Complete the last word of a list; a registry asks what is installed only when needed."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        words = [word for one in listed for word in ([one] if isinstance(one, str) else one)]
        fit = [word for word in words if word.startswith(last) and word not in before.split(",")]
        return [f"{before}{comma}{word}" for word in fit]

    return complete


def allow(names: list[str] | None) -> list[str] | None:
    """Let this process and its children import what the job names; see `pace.io.plugins`."""
    plugins.allow(*names or ())
    return names


def data_root(folder: Path | None) -> Path | None:
    """Where this process and its children find the benchmarks."""
    if folder:
        os.environ["PACE_DATA"] = str(folder)
    return folder


As_json = Annotated[bool, option("Print one JSON object.", "", "--json")]
Job_file = Annotated[Path, argument("The job, as everybody has it.", metavar="JOB")]
Sealed = Annotated[bool, option("The server sees sums over all clients only.", "", "--sealed")]
HARM = "Take a method that may harm its receivers."
Without_promise = Annotated[bool, option(HARM, "", "--without-promise")]
Clients = Annotated[int, option("How many clients.", "N")]
RANK = option("Rank of PACE's messages, or dense.", "N")
Seeds = Annotated[str, option("How many of the paper's five seeds, or a list of your own.", "N")]
Data_seed = Annotated[int, option("Seed of partition and masks.", "N")]
Epochs = Annotated[int | None, option("Training steps (default: the method's).", "N")]
Rate = Annotated[float | None, option("Learning rate (default: the method's).", "X", "--lr")]
Weight_decay = Annotated[float | None, option("Weight decay (default: the method's).", "X")]
Dropout = Annotated[float | None, option("Dropout while training (default: 0.5).", "P")]
Device = Annotated[Literal["auto", "cpu", "cuda"], option("Where clients train.", "auto|cpu|cuda")]
ROOT = "Folder of the benchmarks (default: $PACE_DATA, or the cache)."
Data_root = Annotated[Path | None, option(ROOT, "FOLDER", callback=data_root)]
NUMBERS = "Numbers on the wire (default: the method's): float32, float16 or int8."
Numbers = Annotated[Literal["float32", "float16", "int8"] | None, option(NUMBERS, "NAME")]
Id_column = Annotated[str | None, option("The column with ids, if not found.", "COLUMN", "--id")]
Weight = Annotated[str | None, option("The edges' weights (default: the codebook's).", "COLUMN")]
Strangers = Annotated[str, option("Edges to nodes not in the table: refuse or drop.", "NAME")]
Decimal = Annotated[str | None, option("Decimal comma or point, if it is unclear.", "NAME")]
Directions = Annotated[str | None, option("Edges both ways, or keep (as they are).", "both|keep")]
DATASET = {"autocompletion": one_of(DATASETS), "callback": DATASETS.allow}
Dataset = Annotated[str, option("A dataset or .graph file.", "NAME", **DATASET)]
PARTITION = "louvain, metis, dirichlet or column, the graph's own clients (default: the dataset's)."
PARTS = {"autocompletion": one_of(PARTITIONS), "callback": PARTITIONS.allow}
Partition = Annotated[str | None, option(PARTITION, "NAME", **PARTS)]
MODEL = f"A model: {', '.join(MODELS)}; settings as in gat:heads=4."
Model = Annotated[str, option(MODEL, "NAME", autocompletion=one_of(MODELS))]
METHOD = "The method (default: pace-full, sealed pace-full-sums; pace with --rank)."
Method = Annotated[str | None, option(METHOD, "NAME", autocompletion=one_of(METHODS))]
SEVERAL = (
    f"Methods, or the groups {', '.join(METHODS.groups)}; settings as in fedprox:mu=0.1, your own as "
    "package.module:Name. `pace methods` lists them."
)
NAMED = {"autocompletion": one_of(*METHODS.groups, METHODS)}
Methods = Annotated[str, option(SEVERAL, "NAMES", **NAMED)]
EARLIER = "Your earlier .graph; edges may lead there."
With = Annotated[Path | None, option(EARLIER, "FILE", "--with")]
Mapping = Annotated[Path | None, option("How your columns are read (default: the model's).")]
Replace = Annotated[bool, option("Replace existing files.", "", "--replace")]
CODE = "Code that a job may run here; repeat."
Allow = Annotated[list[str] | None, option(CODE, "MODULE:NAME", callback=allow)]
Withdrawals = Annotated[list[Path] | None, option("A signed withdrawal to obey; repeat.")]
Added = Annotated[list[str] | None, option("A newcomer: NAME.pub, NAME=KEY.pub; repeat.", "KEYS")]
Removed = Annotated[list[str] | None, option("A participant to take off the list; repeat.", "NAME")]


def seeds(text: str) -> list[int]:
    """`3` is the first three of the paper's seeds; `7,8` or any larger number are seeds themselves."""
    known = pace.protocol.SEEDS
    numbers = [int(word) if word.strip().isdecimal() else -1 for word in text.split(",")]
    if len(numbers) == 1 and 1 <= numbers[0] <= len(known):
        return list(known[: numbers[0]])
    if numbers == [0] or min(numbers) < 0 or max(numbers) >= 2**63:
        expected = f"a count from 1 to {len(known)}, or seeds below 2^63 like 7,8,9"
        raise SettingError(f"--seeds is {text!r}, expected {expected}")
    if len(set(numbers)) < len(numbers):
        raise SettingError(f"--seeds is {text!r}: a seed occurs twice")
    return numbers


def rank(text: str) -> int | None:
    if text == "dense":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise SettingError(f"--rank is {text!r}, expected a number of 1 or more, or 'dense'")
    return int(text)


def with_dropout(model: Any, dropout: float | None) -> Any:
    """The model with this dropout in place of its own."""
    if dropout is None:
        return model
    if isinstance(model, pace.models.TorchModel):
        raise SettingError(
            f"--dropout is {dropout}, but {model.name} has dropout layers of its own: set them there"
        )
    return replace(model, dropout=dropout)


def device(name: str) -> str:
    """`auto` is the GPU where there is one."""
    import torch

    if name == "cuda" and not torch.cuda.is_available():
        raise SettingError("--device is cuda, but torch finds no GPU here: use --device cpu")
    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name


def foretell(work: Any) -> None:
    """Say what work, a `pace.forecast.Forecast`, is expected to take, if a minute or a gigabyte."""
    if work.seconds > 60 or work.memory > 1e9:
        say(work, err=True)


def one_thread() -> None:
    """Compute on one thread: two are slower on small products."""
    import torch

    torch.set_num_threads(1)


def words(text: str | None) -> list[str]:
    """The words of a list separated by commas.

    A comma before `key=` does not separate: it belongs to `synthetic:nodes=500,degree=6`.
    """
    parts = re.split(r",(?!\s*[^\W\d]\w*\s*=)", text or "")
    return [word.strip() for word in parts if word.strip()]


def method_names(text: str | None) -> list[str]:
    """The names of known methods, groups written out."""
    return [method for name in words(text) for method in METHODS.expand(METHODS.allow(name))]


def need(command: str, package: str, *libraries: str) -> None:
    """Refuse a command whose optional libraries are not installed; `package` with its extra has them."""
    if missing := [name for name in libraries if find_spec(name) is None]:
        raise SettingError(f"{command} needs {' and '.join(missing)}: pip install '{package}'")
