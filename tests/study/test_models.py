"""The study of models: cells that say their model, and the tables made of them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pace.models import MODELS
from pace_study import models, run
from pace_study.cell import Cell, Store
from pace_study.scores import score_cells
from pace_study.study import EVERY_MODEL, FEW_MODELS, MODEL_PARTS, PARTS, chosen, narrowed
from pace_study.study import SEEDS as STUDY_SEEDS

SMALL = "synthetic:nodes=120,classes=2,features=40"
SEEDS = (1, 2)
HOW = run.How(epochs=3)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two models on a small graph, as both parts of the study have them."""
    made = Store(tmp_path_factory.mktemp("models"))
    for name in ("models", "models-masks"):
        part = replace(PARTS[name], datasets=(SMALL,), clients=(3,), models=("gcn", "sage"))
        run.compute(part.cells(SEEDS), made, HOW)
    return made


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in MODEL_PARTS:
        part = replace(PARTS[name], datasets=(SMALL,), clients=(3,), models=("sage", "gcn"))
        monkeypatch.setitem(PARTS, name, part)


def test_a_cell_says_its_model() -> None:
    cell = Cell("cora", "louvain", 10, "pace", 6, 104729, 2024, "gat:heads=4")
    assert json.loads(cell.settings())["network"]["heads"] == 4


def test_every_model_has_a_place_in_the_study() -> None:
    assert set(EVERY_MODEL) == set(MODELS) == set(models.ORDER)
    assert set(FEW_MODELS) <= set(MODELS)
    assert [part.name for part in chosen(["models"])] == list(MODEL_PARTS)
    assert {part.name for part in narrowed(chosen(["models"]), ["twitch"], None)} == {
        "models-twitch"
    }


@pytest.mark.usefixtures("small")
def test_lines_are_computed_from_the_stored_trials(store: Store) -> None:
    found = models.model_scores(score_cells(store), SEEDS)
    lines = dict(iter(found.groupby(["metric", "model"], sort=False)))
    assert list(lines) == [
        ("accuracy", "gcn"), ("accuracy", "sage"), ("roc_auc", "gcn"), ("roc_auc", "sage")
    ]  # fmt: skip
    part = PARTS["models"]
    cell = Cell(SMALL, part.partition, 3, "pace", 6, 2, 2024, "sage")
    trial = store.read(cell)
    assert trial is not None
    hits = sum(int(counts.diagonal().sum()) for counts in trial.counts["adopted"])
    nodes = sum(int(counts.sum()) for counts in trial.counts["adopted"])
    second = lines["accuracy", "sage"].iloc[1]
    assert second.seed == 2
    assert pytest.approx(100 * hits / nodes) == second.PACE
    areas = trial.roc_auc["adopted"]
    assert all(area is None or 0 <= area <= 1 for area in areas)
    assert 0 <= lines["roc_auc", "sage"].PACE.iloc[1] <= 100


@pytest.mark.usefixtures("small")
def test_geometry_is_the_difference_on_the_same_draws(store: Store) -> None:
    scores = score_cells(store)
    found = models.geometries(scores, SEEDS)
    assert set(found.model) == {"gcn", "sage"}
    assert (found.model == "gcn").sum() == len(PARTS["models-masks"].data_seeds)
    text = models.models_markdown(scores, SEEDS)
    assert "| sage |" in text
    assert "Propagated minus raw" in text


def test_an_empty_store_has_tables_without_rows(tmp_path: Path) -> None:
    scores = score_cells(Store(tmp_path))
    assert models.model_scores(scores, SEEDS).empty
    assert "Propagated" not in models.models_markdown(scores, SEEDS)


def test_the_committed_cells_give_the_committed_tables() -> None:
    folder = Path(__file__).parents[2] / "results" / "models"
    made = models.models_markdown(score_cells(Store(folder / "cells")), STUDY_SEEDS)
    assert made == (folder / "tables" / "models.md").read_text()
