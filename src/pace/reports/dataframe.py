"""Results as rows: a run as one tidy table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pace.errors import FileError, SettingError
from pace.methods import make
from pace.metrics import accuracy, macro_f1, pooled, weighted_f1
from pace.protocol.number_formats import KINDS
from pace.reports.run_result import NAME, MethodSettings, RunResult, readings
from pace.reports.trial import Trial

if TYPE_CHECKING:
    import pandas

MAY_BE_ABSENT = dict.fromkeys(("data_seed", "hidden", "epochs", "rank"), "Int64")  # else whole


@dataclass(frozen=True)
class TrialKey:
    """What a trial is of: the columns that every row begins with."""

    dataset: str
    partition: str
    clients: int
    data_seed: int | None
    """Of the partition and the masks; None where a partition file holds both."""
    model: str
    hidden: int | None
    """Width of the hidden layers; None where there are none."""
    layers: int
    epochs: int | None
    """Training steps; None: each method's own budget."""
    numbers: str
    """How numbers are written on the wire."""
    method: str
    rank: int | None
    """Of PACE and its variants; None: dense, or another method."""
    seed: int


@dataclass(frozen=True)
class SeedRow(TrialKey):
    """One method, seed and reading; scores pooled over clients."""

    reading: str
    """`local`, `external` or `adopted`."""
    accuracy: float
    weighted_f1: float
    macro_f1: float
    alpha: float
    """Mean over clients."""
    kept_local: float
    """The share of clients with α = 0."""
    upload: float
    """Mean bytes of a client's upload."""
    returned: float
    dense: int
    """Bytes of the shared model sent whole."""
    fit: float
    """Seconds, all clients together."""
    merge: float
    adopt: float


@dataclass(frozen=True)
class ClientRow(TrialKey):
    """One method, seed, reading and client; scores on the client's own test nodes."""

    reading: str
    client: int
    test_nodes: int
    accuracy: float
    weighted_f1: float
    macro_f1: float
    alpha: float
    upload: int
    returned: int
    dense: int


ROWS: dict[str, type[SeedRow] | type[ClientRow]] = {"seed": SeedRow, "client": ClientRow}
BY = {by: tuple(column.name for column in fields(row)) for by, row in ROWS.items()}


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
        pace.errors.FileError: nowhere has no results.json (from `pace run --out`): name a folder ...
    """
    return tidy_frame(stored(Path(folder)), by)


def tidy_frame(trials: Iterable[tuple[TrialKey, Trial]], by: str) -> pandas.DataFrame:
    """Trials as a DataFrame, a row for each seed or client."""
    if by not in BY:
        raise SettingError(f"by is {by!r}, expected one of {', '.join(BY)}")
    try:
        import pandas
    except ImportError:
        raise SettingError("pace.results needs pandas: pip install 'pace-fgl[report]'") from None
    rows: Iterator[SeedRow | ClientRow] = (
        row
        for key, trial in trials
        for row in (by_seed(key, trial) if by == "seed" else by_client(key, trial))
    )
    table = [tuple(getattr(row, column) for column in BY[by]) for row in rows]
    return pandas.DataFrame(table, columns=list(BY[by])).astype(MAY_BE_ABSENT)


def stored(folder: Path) -> Iterator[tuple[TrialKey, Trial]]:
    """Each trial of a run's folder, and what it is of."""
    if not (folder / NAME).is_file():
        raise nothing_stored(folder)
    run = RunResult.read(folder)
    if not run.trials:
        raise FileError(f"{folder / NAME} holds no trials of `pace run`: run it again")
    yield from of_run(run)


def nothing_stored(folder: Path) -> FileError:
    if (folder / "cells").is_dir():
        return FileError(f"{folder} is a study's: read it with pace_study.frame.results")
    return FileError(
        f"{folder} has no {NAME} (from `pace run --out`): name a folder that it has written"
    )


def of_run(run: RunResult) -> Iterator[tuple[TrialKey, Trial]]:
    """Each trial of a run, and what it is of."""
    settings, widths = run.settings, run.settings.model.widths
    for trial in run.trials:
        told = settings.settings.get(trial.method)
        numbers = settings.numbers if told is None else told.numbers
        if numbers not in KINDS:  # each method's own way, of a run that does not say which
            numbers = make(trial.method).numbers
        key = TrialKey(
            dataset=settings.dataset,
            partition=settings.partition,
            clients=settings.clients,
            data_seed=settings.data_seed,
            model=settings.model.kind,
            hidden=widths[1] if len(widths) > 2 else None,
            layers=len(widths) - 1,
            epochs=settings.epochs,
            numbers=numbers,
            method=trial.method,
            rank=settings.rank,
            seed=trial.seed,
        )
        yield (_ranked(key) if told is None else replace(key, rank=_rank(told))), trial


def _rank(told: MethodSettings) -> int | None:
    rank = told.method.get("rank")
    return rank if isinstance(rank, int) else None


def _ranked(key: TrialKey) -> TrialKey:
    """Only PACE and its variants have a rank."""
    return key if key.method.startswith("pace") else replace(key, rank=None)


def by_seed(key: TrialKey, trial: Trial) -> Iterator[SeedRow]:
    """One row for each reading, all clients' test nodes together."""
    for reading in readings(trial.method):
        counts = pooled(trial.confusions[reading])
        alphas = used(trial, reading)
        yield SeedRow(
            **vars(key),
            reading=reading,
            accuracy=accuracy(counts),
            weighted_f1=weighted_f1(counts),
            macro_f1=macro_f1(counts),
            alpha=statistics.fmean(alphas),
            kept_local=statistics.fmean(alpha == 0 for alpha in alphas),
            upload=statistics.fmean(trial.upload),
            returned=statistics.fmean(trial.returned),
            dense=trial.dense,
            fit=trial.seconds["fit"],
            merge=trial.seconds["merge"],
            adopt=trial.seconds["adopt"],
        )


def by_client(key: TrialKey, trial: Trial) -> Iterator[ClientRow]:
    """One row for each reading and client, scores on the client's own test nodes."""
    for reading in readings(trial.method):
        for client, counts in enumerate(trial.confusions[reading]):
            yield ClientRow(
                **vars(key),
                reading=reading,
                client=client,
                test_nodes=int(counts.sum()),
                accuracy=accuracy(counts),
                weighted_f1=weighted_f1(counts),
                macro_f1=macro_f1(counts),
                alpha=used(trial, reading)[client],
                upload=trial.upload[client],
                returned=trial.returned[client],
                dense=trial.dense,
            )


def used(trial: Trial, reading: str) -> list[float]:
    """The α of a reading, by client: 0 is Local, 1 what came back, else what the receiver chose."""
    fixed = {"local": 0.0, "external": 1.0}
    return [fixed[reading]] * len(trial.alphas) if reading in fixed else trial.alphas
