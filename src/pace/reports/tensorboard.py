"""A run in TensorBoard: its settings, and every score, α, size and time, seed by seed."""

from __future__ import annotations

import json
import re
from itertools import count
from pathlib import Path
from statistics import fmean

import torch

from pace.reports.run_result import RunResult
from pace.reports.run_views import distinct
from pace.reports.trial import KEY, SIZES, STEPS, score_rows
from pace.task import SCORES

FAMILIES = {
    "score": tuple(SCORES),
    "adoption": ("alpha", "kept_local"),
    "bytes": SIZES,
    "seconds": STEPS,
}


def write_tensorboard(folder: Path, run: RunResult) -> Path:
    """Log a run in a new folder below this one; that folder, such as `cora-louvain-c10-1`.

    Each method and reading is a run of TensorBoard's. Its steps are seeds, in order: a federation of
    one round has no other. The table of HParams has the settings, and the means over seeds.
    """
    from torch.utils.tensorboard import SummaryWriter

    settings = run.settings
    name = f"{settings.dataset}-{settings.partition}-c{settings.clients}"
    stem = re.sub(r"[^\w.=,-]", "_", name)
    into = next(path for n in count(1) if not (path := folder / f"{stem}-{n}").exists())
    into.mkdir(parents=True)
    rows = [(trial, row) for key, trial in run.keyed() for row in score_rows(trial, key=key)]
    for scores in distinct(run.summary.results):
        own = (scores.method, scores.reading)
        chosen = [pair for pair in rows if (pair[1]["method"], pair[1]["reading"]) == own]
        numbers = [
            {
                f"{family}/{n}": float(row[n] or 0)
                for family, names in FAMILIES.items()
                for n in names
            }
            for _, row in chosen
        ]
        with SummaryWriter(str(into / "-".join(own))) as writer:
            writer.add_text("command", f"    {settings.command}")
            writer.add_text("versions", f"    {json.dumps(settings.versions)}")
            for step, (trial, _) in enumerate(chosen):
                for name, value in numbers[step].items():
                    writer.add_scalar(name, value, step)
                if scores.reading == "adopted":
                    writer.add_histogram("adoption/by_client", torch.tensor(trial.alphas), step)
            columns = [column for column in (*KEY, "reading") if column != "seed"]
            first = {name: chosen[0][1][name] for name in columns}
            told = {name: "none" if value is None else value for name, value in first.items()}
            means = {f"mean_{name}": fmean(row[name] for row in numbers) for name in numbers[0]}
            writer.add_hparams(told, means, run_name=".")
    return into
