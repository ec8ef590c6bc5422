"""A run as data: written, read back, and read as older versions wrote it."""

import json
from pathlib import Path

import pytest
import torch

from pace.errors import FileError
from pace.methods import Local, Pace
from pace.models import GCN
from pace.reports.run_result import NAME, ModelSettings, RunResult, RunSettings, summarise
from pace.reports.tables import title
from pace.runtimes.simulation import simulate
from tests.graphs import CLASSES, FEATURES, clients


@pytest.fixture(scope="module")
def run() -> RunResult:
    methods = {"local": Local(), "pace": Pace(rank=2)}
    model = GCN((FEATURES, 8, CLASSES))
    trials = list(simulate(clients(2), model, methods, [1, 2], epochs=2))
    settings = RunSettings(
        command="pace run",
        dataset="tiny",
        partition="cut",
        clients=2,
        seeds=(1, 2),
        data_seed=None,
        device="cpu",
        epochs=2,
        rank=2,
        model=ModelSettings(kind="gat", widths=model.widths, dropout=0.5, settings={"heads": 4}),
        versions={"torch": "9.9"},
    )
    return RunResult(settings, summarise(trials), tuple(trials))


def test_a_run_is_read_back_as_it_was_written(run: RunResult, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(run.encode())
    again = RunResult.read(tmp_path)
    assert (again.settings, again.summary) == (run.settings, run.summary)
    assert again.encode() == run.encode()
    for trial, same in zip(run.trials, again.trials, strict=True):
        assert (same.method, same.seed, same.alphas) == (trial.method, trial.seed, trial.alphas)
        for reading, confusions in trial.confusions.items():
            assert all(map(torch.equal, same.confusions[reading], confusions))


def test_a_run_of_an_older_version_is_read_in_today_s_words(run: RunResult) -> None:
    """Without model kind, numbers, command or trials, and with `native` for `external`."""
    found = json.loads(run.encode().replace(b'"external"', b'"native"'))
    for key in ("command", "versions", "numbers", "trials"):
        del found[key]
    found["model"] = {"widths": [4, 8, 3], "dropout": 0.5}
    old = RunResult.of(found)
    assert old.summary == run.summary
    assert old.settings.model == ModelSettings(widths=(4, 8, 3), dropout=0.5)
    assert title(old.settings) == "tiny, cut, 2 clients, 2 seeds"
    assert title(run.settings) == "tiny, cut, 2 clients, 2 seeds, gat"
    assert old.trials == ()


def test_a_damaged_run_is_refused_with_the_key(run: RunResult, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"results\.json not found: name a folder that `pace run"):
        RunResult.read(tmp_path)
    (tmp_path / NAME).write_bytes(run.encode().replace(b'"clients": 2', b'"clients": "two"'))
    with pytest.raises(
        FileError, match=r"\(clients is 'two', expected a whole number\): run it again"
    ):
        RunResult.read(tmp_path)
