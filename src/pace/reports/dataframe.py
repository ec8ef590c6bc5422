"""Results as rows: a study's folder or a run's as one tidy table."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pace.errors import FileError, SettingError
from pace.io import regular, untrusted
from pace.methods import make
from pace.metrics import SCORES, pooled
from pace.protocol.number_formats import KINDS
from pace.reports.run_result import readings
from pace.reports.stored import HIDDEN, LARGEST, LAYERS, cells, not_a_cell, restored
from pace.runtimes.simulation import Trial

if TYPE_CHECKING:
    import pandas

WHERE = (
    "dataset",
    "partition",
    "clients",
    "data_seed",
    "model",
    "hidden",
    "layers",
    "epochs",
    "numbers",
)
WHAT = ("method", "rank", "seed", "reading")
BYTES, SECONDS = ("upload", "returned", "dense"), ("fit", "merge", "adopt")
BY = {
    "seed": (*WHERE, *WHAT, *SCORES, "alpha", "kept_local", *BYTES, *SECONDS),
    "client": (*WHERE, *WHAT, "client", "test_nodes", *SCORES, "alpha", *BYTES),
}
MAY_BE_ABSENT = dict.fromkeys(("data_seed", "hidden", "epochs", "rank"), "Int64")  # else whole

Row = dict[str, Any]


def results(folder: str | Path, by: str = "seed") -> pandas.DataFrame:
    """Everything that `pace reproduce --out` or `pace run --out` stored in a folder, as one table.

    Scores and shares are between 0 and 1, sizes are bytes, times are seconds.

    Args:
        folder: with `cells/`, a study's, or `results.json`, a run's.
        by: `"seed"` gives a row for each method, reading and seed, scores pooled over clients as the
            paper does; `"client"` a row for each client too.

    Returns:
        A pandas DataFrame.

    Raises:
        FileError: the folder holds neither, or something damaged.
        SettingError: `by` is something else, or pandas is not installed.

    Example:
        >>> from pace import results
        >>> results("nowhere")
        Traceback (most recent call last):
        ...
        pace.errors.FileError: nowhere has neither cells/ (from `pace reproduce --out`) nor ...
    """
    if by not in BY:
        raise SettingError(f"by is {by!r}, expected one of {', '.join(BY)}")
    try:
        import pandas
    except ImportError:
        raise SettingError("pace.results needs pandas: pip install 'pace-fgl[report]'") from None
    make = by_seed if by == "seed" else by_client
    rows = [row for where, trial in stored(Path(folder)) for row in make(where, trial)]
    return pandas.DataFrame(rows, columns=list(BY[by])).astype(MAY_BE_ABSENT)


def stored(folder: Path) -> Iterator[tuple[Row, Trial]]:
    """Each trial of a folder, and where it belongs."""
    if (folder / "cells").is_dir():
        yield from _study(folder)
    elif (folder / "results.json").is_file():
        path = folder / "results.json"
        try:
            yield from of_run(untrusted.json(regular.read(path, LARGEST)))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise FileError(
                f"{path} holds no trials of `pace run` ({error!r}): run it again"
            ) from None
    else:
        raise FileError(
            f"{folder} has neither cells/ (from `pace reproduce --out`) nor results.json "
            "(from `pace run --out`): name a folder that one of them has written"
        )


def _study(folder: Path) -> Iterator[tuple[Row, Trial]]:
    for path, found in cells(folder):
        settings = found["settings"]
        try:
            where = {name: settings[name] for name in WHERE if name in settings}
            where |= {
                "model": settings.get("model", "gcn"),
                "hidden": HIDDEN,
                "layers": LAYERS,
                "rank": settings["rank"],
            }
            where["numbers"] = make(settings["method"]).numbers
            trial = restored(settings["method"], settings["seed"], found)
        except (LookupError, TypeError) as error:
            raise not_a_cell(path, error) from None
        yield where, trial


def of_run(found: Mapping[str, Any]) -> Iterator[tuple[Row, Trial]]:
    """Each trial of what `pace run` found, and where it belongs."""
    widths = found["model"]["widths"]
    where = {name: found.get(name) for name in WHERE} | {
        "model": found["model"].get("kind", "gcn"),
        "hidden": widths[1] if len(widths) > 2 else None,
        "layers": len(widths) - 1,
        "rank": found["rank"],
    }
    for each in found["trials"]:
        if found["numbers"] not in KINDS:  # each method's own way
            where = where | {"numbers": make(each["method"]).numbers}
        yield where, restored(each["method"], each["seed"], each)


def by_seed(where: Row, trial: Trial) -> Iterator[Row]:
    """One row for each reading, all clients' test nodes together."""
    for reading in readings(trial.method):
        counts = pooled(trial.confusions[reading])
        alphas = used(trial, reading)
        yield _named(where, trial, reading) | {
            **{name: score(counts) for name, score in SCORES.items()},
            "alpha": statistics.fmean(alphas),
            "kept_local": statistics.fmean(alpha == 0 for alpha in alphas),
            "upload": statistics.fmean(trial.upload),
            "returned": statistics.fmean(trial.returned),
            "dense": trial.dense,
            **trial.seconds,
        }


def by_client(where: Row, trial: Trial) -> Iterator[Row]:
    """One row for each reading and client, scores on the client's own test nodes."""
    for reading in readings(trial.method):
        for client, counts in enumerate(trial.confusions[reading]):
            yield _named(where, trial, reading) | {
                "client": client,
                "test_nodes": int(counts.sum()),
                **{name: score(counts) for name, score in SCORES.items()},
                "alpha": used(trial, reading)[client],
                "upload": trial.upload[client],
                "returned": trial.returned[client],
                "dense": trial.dense,
            }


def used(trial: Trial, reading: str) -> list[float]:
    """The α of a reading, by client: 0 is Local, 1 what came back, else what the receiver chose."""
    fixed = {"local": 0.0, "external": 1.0}
    return [fixed[reading]] * len(trial.alphas) if reading in fixed else trial.alphas


def _named(where: Row, trial: Trial, reading: str) -> Row:
    """Only PACE and its variants have a rank; none of theirs is dense."""
    rank = where["rank"] if trial.method.startswith("pace") else None
    names = {"method": trial.method, "rank": rank, "seed": trial.seed, "reading": reading}
    return where | names
