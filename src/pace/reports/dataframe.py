"""Results as rows: trials as one tidy pandas table (the extra `report`)."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from pace.errors import FileError, SettingError
from pace.reports.trial import Trial, readings, used_alphas
from pace.task import SCORES, pooled

if TYPE_CHECKING:
    import pandas

    from pace.reports.run_result import RunResult

MAY_BE_ABSENT = dict.fromkeys(("data_seed", "hidden", "epochs", "rank"), "Int64")  # else whole

Row = dict[str, str | int | float | None]


@dataclass(frozen=True)
class TrialKey:
    """What a trial is of: the columns that every row begins with."""

    dataset: str
    partition: str
    clients: int
    data_seed: int | None
    """Of the partition and the masks; None where they were given."""
    model: str
    hidden: int | None
    """Width of the hidden layers; None where there are none."""
    layers: int
    epochs: int | None
    """Training steps."""
    numbers: str
    """How numbers are written on the wire."""
    method: str
    rank: int | None
    """Of PACE and its variants; None: dense, or another method."""
    seed: int


KEY = tuple(column.name for column in fields(TrialKey))
SIZES = ("upload", "returned", "dense")
BY = {  # the columns of a row for each seed, and for each client
    "seed": (
        *(*KEY, "reading", *SCORES, "alpha", "kept_local", *SIZES),
        *("fit", "merge", "adopt"),
    ),
    "client": (*KEY, "reading", "client", "test_nodes", *SCORES, "alpha", *SIZES),
}


def results(folder: str | Path, by: str = "seed") -> pandas.DataFrame:
    """Everything that `pace run --out` stored in a folder, as one table.

    Scores and shares are between 0 and 1, sizes are bytes, times are seconds.

    Args:
        folder: a run's, with `results.json`; `pace_study.frame.results` reads a study's.
        by: `"seed"` gives a row for each method, reading and seed, scores pooled over clients as the
            paper does; `"client"` a row for each client too.

    Returns:
        A pandas DataFrame.

    Raises:
        FileError: the folder holds none, or a damaged one.
        SettingError: `by` is something else, or pandas is not installed.

    Example:
        >>> from pace import results
        >>> results("nowhere")
        Traceback (most recent call last):
        ...
        pace.errors.FileError: nowhere/results.json not found: name a folder that `pace run --out` ...
    """
    return tidy_frame(_stored(Path(folder)), by)


def _stored(folder: Path) -> Iterator[tuple[TrialKey, Trial]]:
    from pace.reports.run_result import RunResult

    if (folder / "cells").is_dir():
        raise FileError(f"{folder} is a study's: read it with pace_study.frame.results")
    yield from run_trials(RunResult.read(folder))


def tidy_frame(trials: Iterable[tuple[TrialKey, Trial]], by: str) -> pandas.DataFrame:
    """Trials as a DataFrame, a row for each seed or client."""
    rows = {"seed": seed_rows, "client": client_rows}
    if by not in rows:
        raise SettingError(f"by is {by!r}, expected one of {', '.join(rows)}")
    try:
        import pandas
    except ImportError:
        raise SettingError(
            "results as a table need pandas: pip install 'pace-fgl[report]'"
        ) from None
    found = [row for key, trial in trials for row in rows[by](key, trial)]
    table = pandas.DataFrame(found, columns=list(BY[by]))
    return table.astype(MAY_BE_ABSENT)


def run_trials(run: RunResult) -> Iterator[tuple[TrialKey, Trial]]:
    """Each trial of a run, and what it is of."""
    settings, widths = run.settings, run.settings.shape["widths"]
    for trial in run.trials:
        setup = settings.setups[trial.method]
        rank = setup["method"].get("rank")
        key = TrialKey(
            dataset=settings.dataset,
            partition=settings.partition,
            clients=settings.clients,
            data_seed=settings.data_seed,
            model=settings.model,
            hidden=widths[1] if len(widths) > 2 else None,
            layers=len(widths) - 1,
            epochs=setup["recipe"]["epochs"],
            numbers=setup["numbers"],
            method=trial.method,
            rank=rank if isinstance(rank, int) else None,
            seed=trial.seed,
        )
        yield key, trial


def seed_rows(key: TrialKey, trial: Trial) -> Iterator[Row]:
    """One row for each reading, all clients' test nodes together."""
    for reading in readings(trial.method):
        counts = pooled(trial.counts[reading])
        alphas = used_alphas(trial, reading)
        yield {
            **vars(key),
            "reading": reading,
            **{name: score(counts) for name, score in SCORES.items()},
            "alpha": statistics.fmean(alphas),
            "kept_local": statistics.fmean(alpha == 0 for alpha in alphas),
            "upload": statistics.fmean(trial.upload),
            "returned": statistics.fmean(trial.returned),
            "dense": trial.dense,
            **{step: trial.seconds[step] for step in ("fit", "merge", "adopt")},
        }


def client_rows(key: TrialKey, trial: Trial) -> Iterator[Row]:
    """One row for each reading and client, scores on the client's own test nodes."""
    for reading in readings(trial.method):
        for client, counts in enumerate(trial.counts[reading]):
            yield {
                **vars(key),
                "reading": reading,
                "client": client,
                "test_nodes": int(counts.sum()),
                **{name: score(counts) for name, score in SCORES.items()},
                "alpha": used_alphas(trial, reading)[client],
                "upload": trial.upload[client],
                "returned": trial.returned[client],
                "dense": trial.dense,
            }
