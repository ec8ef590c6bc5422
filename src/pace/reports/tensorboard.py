"""A run in TensorBoard: its settings, and every score, α, size and time, seed by seed."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import torch

from pace.metrics import SCORES
from pace.reports.dataframe import BYTES, SECONDS, WHERE, Row, by_seed, of_run
from pace.reports.tables import distinct

FAMILIES = {
    "score": tuple(SCORES),
    "adoption": ("alpha", "kept_local"),
    "bytes": BYTES,
    "seconds": SECONDS,
}
SETTINGS = (*WHERE, "method", "rank", "reading")


def write(folder: Path, found: dict[str, Any]) -> Path:
    """Log what `pace run` found in a new folder below this one; that folder.

    Each method and reading is a run of TensorBoard's. Its steps are seeds, in order: a federation of
    one round has no other. The table of HParams has the settings, and the means over seeds.
    """
    from torch.utils.tensorboard import SummaryWriter

    trials = list(of_run(found))
    into = _new(folder, found)
    for result in distinct(found):
        method, reading = result["method"], result["reading"]
        chosen = [
            (trial, row)
            for where, trial in trials
            if trial.method == method
            for row in by_seed(where, trial)
            if row["reading"] == reading
        ]
        with SummaryWriter(str(into / f"{method}-{reading}")) as writer:
            writer.add_text("command", f"    {found['command']}")
            writer.add_text("versions", f"    {json.dumps(found['versions'])}")
            for step, (trial, row) in enumerate(chosen):
                for name, value in _numbers(row).items():
                    writer.add_scalar(name, value, step)
                if reading == "adopted":
                    writer.add_histogram("adoption/by_client", torch.tensor(trial.alphas), step)
            rows = [row for _, row in chosen]
            writer.add_hparams(_settings(rows[0]), _means(rows), run_name=".")
    return into


def _new(folder: Path, found: Mapping[str, Any]) -> Path:
    """`cora-louvain-c10-1`, or the next number that no run has had."""
    name = f"{found['dataset']}-{found['partition']}-c{found['clients']}"
    stem = re.sub(r"[^\w.=,-]", "_", name)
    for number in count(1):
        made = folder / f"{stem}-{number}"
        try:
            made.mkdir(parents=True)
        except FileExistsError:
            continue
        break
    return made


def _numbers(row: Row) -> dict[str, float]:
    return {f"{family}/{name}": row[name] for family, names in FAMILIES.items() for name in names}


def _means(rows: Sequence[Row]) -> dict[str, float]:
    """HParams shows scalars of the run itself: the means have tags of their own."""
    each = [_numbers(row) for row in rows]
    return {f"mean_{name}": statistics.fmean(row[name] for row in each) for name in each[0]}


def _settings(row: Row) -> dict[str, str | int]:
    return {name: "none" if row[name] is None else row[name] for name in SETTINGS}
