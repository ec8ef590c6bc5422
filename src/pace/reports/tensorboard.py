"""A run in TensorBoard: its settings, and every score, α, size and time, seed by seed."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Sequence
from dataclasses import fields
from itertools import count
from pathlib import Path

import torch

from pace.metrics import SCORES
from pace.reports.dataframe import SeedRow, TrialKey, by_seed, of_run
from pace.reports.run_result import RunResult, RunSettings
from pace.reports.tables import distinct

FAMILIES = {
    "score": tuple(SCORES),
    "adoption": ("alpha", "kept_local"),
    "bytes": ("upload", "returned", "dense"),
    "seconds": ("fit", "merge", "adopt"),
}
SETTINGS = (*(key.name for key in fields(TrialKey) if key.name != "seed"), "reading")


def write(folder: Path, run: RunResult) -> Path:
    """Log what `pace run` found in a new folder below this one; that folder.

    Each method and reading is a run of TensorBoard's. Its steps are seeds, in order: a federation of
    one round has no other. The table of HParams has the settings, and the means over seeds.
    """
    from torch.utils.tensorboard import SummaryWriter

    trials = list(of_run(run))
    into = _new(folder, run.settings)
    for scores in distinct(run.summary.results):
        method, reading = scores.method, scores.reading
        chosen = [
            (trial, row)
            for key, trial in trials
            if trial.method == method
            for row in by_seed(key, trial)
            if row.reading == reading
        ]
        with SummaryWriter(str(into / f"{method}-{reading}")) as writer:
            writer.add_text("command", f"    {run.settings.command}")
            writer.add_text("versions", f"    {json.dumps(run.settings.versions)}")
            for step, (trial, row) in enumerate(chosen):
                for name, value in _numbers(row).items():
                    writer.add_scalar(name, value, step)
                if reading == "adopted":
                    writer.add_histogram("adoption/by_client", torch.tensor(trial.alphas), step)
            rows = [row for _, row in chosen]
            writer.add_hparams(_settings(rows[0]), _means(rows), run_name=".")
    return into


def _new(folder: Path, settings: RunSettings) -> Path:
    """`cora-louvain-c10-1`, or the next number that no run has had."""
    name = f"{settings.dataset}-{settings.partition}-c{settings.clients}"
    stem = re.sub(r"[^\w.=,-]", "_", name)
    for number in count(1):
        made = folder / f"{stem}-{number}"
        try:
            made.mkdir(parents=True)
        except FileExistsError:
            continue
        break
    return made


def _numbers(row: SeedRow) -> dict[str, float]:
    return {
        f"{family}/{name}": getattr(row, name)
        for family, names in FAMILIES.items()
        for name in names
    }


def _means(rows: Sequence[SeedRow]) -> dict[str, float]:
    """HParams shows scalars of the run itself: the means have tags of their own."""
    numbers = [_numbers(row) for row in rows]
    return {f"mean_{name}": statistics.fmean(row[name] for row in numbers) for name in numbers[0]}


def _settings(row: SeedRow) -> dict[str, str | int]:
    values = {name: getattr(row, name) for name in SETTINGS}
    return {name: "none" if value is None else value for name, value in values.items()}
