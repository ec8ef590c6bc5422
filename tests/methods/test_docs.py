"""The page on adding a method: its example is what it says (tests/docs/test_code.py runs it)."""

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pace.methods import METHODS, make
from pace.protocol import steps
from pace.protocol.uploads import Messages
from tests.blocks import blocks
from tests.graphs import clients, federation

PAGE = Path(__file__).parents[2] / "docs" / "add-a-method.md"
BLOCKS = [block.text for block in blocks(PAGE) if block.language == "python"]


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The names that the page's file defines."""
    names: dict[str, Any] = {"__name__": "ties"}
    exec(compile(BLOCKS[0], str(PAGE), "exec"), names)
    return names


def test_the_line_makes_it_a_method_by_name(
    page: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert '"ties": "pace.methods.beyond.ties:Ties",' in PAGE.read_text()
    assert "ties" not in METHODS  # or the page should say so
    monkeypatch.setitem(sys.modules, "pace.methods.beyond.ties", types.SimpleNamespace(**page))
    monkeypatch.setitem(METHODS.built_in, "ties", "pace.methods.beyond.ties:Ties")
    assert make("ties") == page["Ties"]()
    graphs, agreed = clients(2), federation(make("ties"))
    fitted = [steps.fit(graph, agreed) for graph in graphs]
    returns = steps.merge([upload for _, upload in fitted], agreed)
    for graph, (kept, _), returned in zip(graphs, fitted, returns, strict=True):
        assert steps.adopt(graph, kept, returned, agreed).logits.isfinite().all()


def test_the_example_is_ties_coordinate_by_coordinate(page: dict[str, Any]) -> None:
    graphs, agreed = clients(3), federation(page["Ties"](density=0.3, scale=0.5))
    random = torch.Generator().manual_seed(0)
    models = [
        {name: torch.randn(value.shape, generator=random) for name, value in agreed.start.items()}
        for _ in graphs
    ]
    uploads = [agreed.method.share(m, g, agreed) for m, g in zip(models, graphs, strict=True)]
    returned = next(iter(agreed.method.merge(Messages(uploads), agreed)))
    external = agreed.method.adopt(models[0], returned, graphs[0], agreed)[0].params

    start = np.concatenate([value.numpy().ravel() for value in agreed.start.values()])
    updates = [
        np.concatenate([value.numpy().ravel() for value in model.values()]) - start
        for model in models
    ]
    for update in updates:
        kept = np.argsort(np.abs(update))[round(0.7 * len(update)) :]
        update[np.setdiff1d(np.arange(len(update)), kept)] = 0
    merged = np.zeros_like(start)
    for place in range(len(start)):
        entries = [update[place] for update in updates]
        agreeing = [entry for entry in entries if entry * sum(entries) > 0]
        merged[place] = 0.5 * np.mean(agreeing) if agreeing else 0.0
    found = np.concatenate([value.numpy().ravel() for value in external.values()])
    np.testing.assert_allclose(found, start + merged, rtol=1e-4, atol=1e-5)
