"""The recipes of docs/export.md, run as they stand, against `pace client predict`."""

import csv
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch

from pace.runtimes.files import model
from tests.blocks import ROOT, blocks
from tests.export.models import graph, made
from tests.preloaded import Preloaded
from tests.sites import WORDS, write_graph

BLOCKS = [block for block in blocks(ROOT / "docs" / "export.md") if block.mark("run by")]


@pytest.fixture(scope="module")
def folder(pace: Preloaded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site's model and graph, what `pace client predict` says, and what `pace export` writes."""
    root = tmp_path_factory.mktemp("site")
    model.write_model(root / "mine.model", made())
    write_graph(root / "mine.graph", graph(), WORDS)
    asked = ("client", "predict", "mine.model", "mine.graph", "--out", "p.csv")
    assert pace(*asked, cwd=root).code == 0
    return root


@pytest.mark.parametrize("kind", ["torch", "onnx"])
def test_a_recipe_predicts_what_pace_predicts(
    folder: Path, pace: Preloaded, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "onnx":
        pytest.importorskip("onnxruntime")
    (command,) = (block for block in BLOCKS if f"--to {kind} " in block.text)
    recipe = BLOCKS[BLOCKS.index(command) + 1]
    assert len([line for line in recipe.text.splitlines() if line]) <= 6
    done = pace(*shlex.split(command.text)[1:], cwd=folder)
    assert done.code == 0, done.err
    monkeypatch.chdir(folder / f"mine_{kind}")
    names: dict[str, Any] = {}
    exec(compile(recipe.text, os.fspath(recipe.page), "exec"), names)
    rows = list(csv.DictReader((folder / "p.csv").read_text().splitlines()))
    assert names["called"] == [row["class"] for row in rows]
    probabilities = torch.as_tensor(names["logits"]).softmax(1)
    for row, ours in zip(rows, probabilities.tolist(), strict=True):
        expected = [float(row[f"p_{name}"]) for name in WORDS.classes]
        assert ours == pytest.approx(expected, abs=1e-5)
