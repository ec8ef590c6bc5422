"""A run in TensorBoard or MLflow: its settings, and every score, α, size and time, seed by seed.

A method and reading is a run of the tracker's. Its steps are seeds, in order: a federation of one round
has no other. Others add trackers by entry points of the group `pace.trackers`: a function of the text
after `--track NAME=` that gives a function of a RunResult, which says where it was logged.
"""

import json
import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch

from pace.cli import given
from pace.errors import SettingError
from pace.reports import KEY, SIZES, STEPS, RunResult, distinct
from pace.task import SCORES

EXTRA = "pace-study[tracking]"
FAMILIES = {"score": [*SCORES], "adoption": ["alpha", "kept_local"]}
FAMILIES |= {"bytes": [*SIZES], "seconds": [*STEPS]}
NAMES = {name: f"{family}/{name}" for family, members in FAMILIES.items() for name in members}


class Tracked(NamedTuple):
    """One method and reading."""

    name: str
    settings: dict[str, Any]
    numbers: list[dict[str, float]]  # a seed each, `family/name`
    means: dict[str, float]  # over seeds
    alphas: list[list[float]]  # a seed each, by client; none but of what was adopted


def tracked(run: RunResult) -> Iterator[Tracked]:
    """Every method and reading of a run; models that several methods share come once."""
    frame = run.frame().astype(object)
    for scores in distinct(run.summary):
        method, reading = scores.method, scores.reading
        rows = frame[(frame.method == method) & (frame.reading == reading)]
        settings = rows[[*KEY, "reading"]].drop(columns="seed").iloc[0].fillna("none").to_dict()
        numbers = rows[list(NAMES)].rename(columns=NAMES).astype(float).fillna(0).to_dict("records")
        means = {f"mean_{name}": fmean(row[name] for row in numbers) for name in numbers[0]}
        adopted = [trial.alphas for trial in run.trials if trial.method == method]
        alphas = adopted if reading == "adopted" else []
        yield Tracked(f"{method}-{reading}", settings, numbers, means, alphas)


def title(run: RunResult) -> str:
    settings = run.settings
    name = f"{settings.dataset}-{settings.partition}-c{settings.clients}"
    return re.sub(r"[^\w.=,-]", "_", name)


def tensorboard(where: str) -> Callable[[RunResult], Path]:
    """Log runs for TensorBoard, each in a new folder below `where`, such as `cora-louvain-c10-1`."""
    if Path(where).is_file():
        raise SettingError(f"--track tensorboard={where}: that is a file, name a folder")
    given.need("--track tensorboard", EXTRA, "tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    def log(run: RunResult) -> Path:
        paths = (Path(where) / f"{title(run)}-{number}" for number in count(1))
        folder = next(path for path in paths if not path.exists())
        folder.mkdir(parents=True)
        for part in tracked(run):
            with SummaryWriter(str(folder / part.name)) as writer:
                writer.add_text("command", f"    {run.settings.command}")
                writer.add_text("versions", f"    {json.dumps(run.settings.versions)}")
                for step, numbers in enumerate(part.numbers):
                    for name, value in numbers.items():
                        writer.add_scalar(name, value, step)
                for step, alphas in enumerate(part.alphas):
                    writer.add_histogram("adoption/by_client", torch.tensor(alphas), step)
                writer.add_hparams(part.settings, part.means, run_name=".")
        return folder

    return log


def mlflow(where: str) -> Callable[[RunResult], str]:
    """Log runs for MLflow: `where` is a database's file or a tracking server's address."""
    given.need("--track mlflow", EXTRA, "mlflow")
    from mlflow.tracking import MlflowClient

    address = where if "://" in where else f"sqlite:///{Path(where).resolve()}"
    client = MlflowClient(tracking_uri=address)
    try:
        client.search_experiments(max_results=1)
    except Exception as error:  # of its database, its network or its own
        raise SettingError(f"--track mlflow={where}: MLflow cannot use it ({error})") from error

    def log(run: RunResult) -> str:
        name = title(run)
        earlier = client.get_experiment_by_name(name)
        experiment = earlier.experiment_id if earlier else client.create_experiment(name)
        for part in tracked(run):
            logged = client.create_run(experiment, run_name=part.name).info.run_id
            for key, value in {**part.settings, "command": run.settings.command}.items():
                client.log_param(logged, key, value)
            for library_name, version in run.settings.versions.items():
                client.set_tag(logged, f"version.{library_name}", version)
            for step, numbers in enumerate(part.numbers):
                for key, value in numbers.items():
                    client.log_metric(logged, key, value, step=step)
            for key, value in part.means.items():
                client.log_metric(logged, key, value)
            client.set_terminated(logged)
        return f"{where}, experiment {name}"

    return log
