"""A run in TensorBoard: its settings, and every score, α, size and time, seed by seed."""

from __future__ import annotations

import json
import re
import statistics
from dataclasses import fields
from itertools import count
from pathlib import Path

import torch

from pace.reports.dataframe import Row, TrialKey, run_trials, seed_rows
from pace.reports.run_result import RunResult, RunSettings
from pace.reports.run_tables import distinct
from pace.task import SCORES

FAMILIES = {
    "score": tuple(SCORES),
    "adoption": ("alpha", "kept_local"),
    "bytes": ("upload", "returned", "dense"),
    "seconds": ("fit", "merge", "adopt"),
}
SETTINGS = (*(key.name for key in fields(TrialKey) if key.name != "seed"), "reading")


def write_tensorboard(folder: Path, run: RunResult) -> Path:
    """Log a run in a new folder below this one; that folder.

    Each method and reading is a run of TensorBoard's. Its steps are seeds, in order: a federation of
    one round has no other. The table of HParams has the settings, and the means over seeds.
    """
    from torch.utils.tensorboard import SummaryWriter

    rows = [(trial, row) for key, trial in run_trials(run) for row in seed_rows(key, trial)]
    into = _new(folder, run.settings)
    for scores in distinct(run.summary.results):
        chosen = [
            (trial, row)
            for trial, row in rows
            if (row["method"], row["reading"]) == (scores.method, scores.reading)
        ]
        with SummaryWriter(str(into / f"{scores.method}-{scores.reading}")) as writer:
            writer.add_text("command", f"    {run.settings.command}")
            writer.add_text("versions", f"    {json.dumps(run.settings.versions)}")
            for step, (trial, row) in enumerate(chosen):
                for name, value in _numbers(row).items():
                    writer.add_scalar(name, value, step)
                if scores.reading == "adopted":
                    writer.add_histogram("adoption/by_client", torch.tensor(trial.alphas), step)
            numbers = [_numbers(row) for _, row in chosen]
            means = {
                f"mean_{name}": statistics.fmean(row[name] for row in numbers)
                for name in numbers[0]
            }
            writer.add_hparams(_settings(chosen[0][1]), means, run_name=".")
    return into


def _new(folder: Path, settings: RunSettings) -> Path:
    """`cora-louvain-c10-1`, or the next number that no run has had."""
    name = f"{settings.dataset}-{settings.partition}-c{settings.clients}"
    stem = re.sub(r"[^\w.=,-]", "_", name)
    for number in count(1):
        into = folder / f"{stem}-{number}"
        try:
            into.mkdir(parents=True)
        except FileExistsError:
            continue
        break
    return into


def _numbers(row: Row) -> dict[str, float]:
    return {
        f"{family}/{name}": float(row[name] or 0)
        for family, names in FAMILIES.items()
        for name in names
    }


def _settings(row: Row) -> dict[str, str | int | float]:
    return {name: "none" if (value := row[name]) is None else value for name in SETTINGS}
