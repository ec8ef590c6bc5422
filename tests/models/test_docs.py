"""The page on adding a model: its file is a model, its test passes, and its module trains."""

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from pace.models import MODELS, kind_of, sized
from pace.protocol import steps
from pace.protocol.federation import Federation
from tests.blocks import blocks
from tests.graphs import CLASSES, FEATURES, clients
from tests.models import test_models as oracle

PAGE = Path(__file__).parents[2] / "docs" / "add-a-model.md"
BLOCKS = [block.text for block in blocks(PAGE) if block.language == "python"]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The page's class, listed as its line says."""
    module = types.ModuleType("graph_conv")
    monkeypatch.setitem(sys.modules, "graph_conv", module)
    exec(compile(BLOCKS[0], str(PAGE), "exec"), module.__dict__)
    line = '"graph-conv": "pace.models.graph_conv:GraphConv",'
    assert line in BLOCKS[1]
    assert "graph-conv" not in MODELS  # or the page should say so
    module.GraphConv.__module__ = "pace.models.graph_conv"
    monkeypatch.setitem(sys.modules, "pace.models.graph_conv", module)
    monkeypatch.setitem(MODELS.built_in, "graph-conv", "pace.models.graph_conv:GraphConv")
    return module.GraphConv


def test_the_pages_test_holds_for_the_pages_file(model: Any) -> None:
    names: dict[str, Any] = dict(vars(oracle))
    exec(compile(BLOCKS[2], str(PAGE), "exec"), names)
    for widths in oracle.DEPTHS:
        made = model(widths)
        for shape in (oracle.lonely_ones, oracle.dense):
            oracle.test_logits_and_gradients_are_pygs(made, names["graph_conv"], shape)
        for check in (
            oracle.test_the_receptive_field_gives_the_centres_logits,
            oracle.test_a_weight_multiplies_the_rows_it_is_said_to,
            oracle.test_every_parameter_has_rows_or_is_averaged,
            oracle.test_the_start_is_its_seeds,
        ):
            check(made, names["graph_conv"])


def test_the_line_makes_it_a_model_by_name(model: Any) -> None:
    made = sized("graph-conv", FEATURES, 16, 2, CLASSES)
    assert kind_of(made) == "graph-conv"
    agreed = Federation(made, importlib.import_module("pace.methods").Pace(), 7, 3)
    graph = clients(1)[0]
    kept, upload = steps.fit(graph, agreed)
    (returned,) = steps.merge([upload], agreed)
    assert steps.adopt(graph, kept, returned, agreed).logits.isfinite().all()


def test_the_pages_module_has_the_gcns_moments() -> None:
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(BLOCKS[3], str(PAGE), "exec"), names)
    made = names["model"]
    assert set(made.averaged) == {"conv1.bias", "conv2.bias"}
    assert made.shapes["conv1.lin.weight"] == (64, 600)
    assert torch.isfinite(names["federation"].start["conv2.lin.weight"]).all()
