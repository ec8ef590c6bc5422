"""The page of one exchange against a hundred rounds, worked out from made-up files."""

import json
from pathlib import Path

import pandas as pd
import pytest
import torch
from benchmarks import one_exchange as page

from pace.datasets.partition.divide import DATA_SEED
from pace.reports.trial import Trial
from pace_study.cell import Cell, Store
from pace_study.study import SEEDS

FIRST, SECOND = SEEDS[:2]
WHERE = ("cora", "louvain", 10)


def played(out: Path, method: str, seed: int, gate: float) -> None:
    content: dict[str, object] = dict(
        zip(("dataset", "partition", "clients"), WHERE, strict=True), method=method, seed=seed
    )
    if method == "ceiling":
        content |= {"gcn": [80.0], "ridge": [82.0], "both": [gate]}
    else:
        content |= {"received": 60.0, "fine_tuned": 70.0, "in_the_gate": gate, "local": 50.0}
        content |= {"bytes": 10**8}
    with out.open("a") as file:
        print(json.dumps(content), file=file)


def adopted(results: Path, method: str, seed: int, right: int) -> None:
    counts = torch.tensor([[right, 100 - right], [0, 0]])
    confusions = {reading: [counts] * 2 for reading in ("local", "external", "adopted")}
    trial = Trial(method, seed, [0.5, 0.5], confusions, [1000] * 2, [500] * 2, 9, {})
    cell = Cell(*WHERE, method, 6, seed, DATA_SEED)
    Store(results / "cells").write(cell, trial, epochs=None, device="cpu")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for seed, more in ((FIRST, 0), (SECOND, 2)):
        for method, right in zip(page.ONCE, (71, 72, 80, 82), strict=True):
            adopted(tmp_path, method, seed, right + more)
        for method, gate in zip(page.METHODS, (85.0, 75.0, 76.0, 81.0), strict=True):
            played(tmp_path / "rounds.jsonl", method, seed, gate + more)
    return tmp_path


def markdown(results: Path) -> str:
    return "\n".join(table.markdown() for table in page.tables(page.settings(results)))


def test_a_setting_is_averaged_over_the_seeds_of_which_everything_is_there(results: Path) -> None:
    both = page.settings(results)
    assert list(both.index) == ["Cora, louvain, C = 10"]
    row = both.iloc[0]
    assert row.seeds == 2
    assert row["fedavg", "in_the_gate"] == 76.0
    assert row["pace-ridge", "accuracy"] == pytest.approx(81.0, abs=1e-3)
    assert row["ceiling", "both"] == 86.0
    assert row["pace", "bytes"] == 1500
    path = results / "rounds.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if f'"fedpub", "seed": {SECOND}' not in line))
    one = page.settings(results).iloc[0]
    assert one.seeds == 1
    assert one["fedavg", "in_the_gate"] == 75.0
    assert one["pace-ridge", "accuracy"] == pytest.approx(80.0, abs=1e-3)
    path.write_text("\n".join(line for line in lines if f'"fedgta", "seed": {SECOND}' not in line))
    assert "| 1 | 50.0 |" in markdown(results)


def test_a_method_that_was_not_run_has_a_dash(results: Path) -> None:
    found = page.settings(results).drop(columns=[("fedpub", key) for key in page.READINGS])
    table, _ = page.tables(pd.concat([found, page.settings(results)]))
    assert "| 76.0 | 60.0 | 70.0 | 77.0 | - | - | - | 72.0 |" in table.markdown()


def test_the_table_says_where_one_exchange_is_ahead_least(results: Path) -> None:
    text = markdown(results)
    assert "| Cora, louvain, C = 10 | 2 | 50.0 | 60.0 | 70.0 | 76.0 |" in text
    assert "| pace-ridge | +5.00 | +5.00 (Cora, louvain, C = 10) |" in text
    assert "-1.00 (Cora, louvain, C = 10) |" in text  # FedPub is above it


def test_the_figure_has_a_mark_for_every_method(results: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures need the extra `report`")
    drawn = page.figure(page.settings(results))
    labels = drawn.axes[0].get_legend_handles_labels()[1]
    assert len(labels) == len(page.ROUNDS) + len(page.ONCE) + 2
