"""An exported model predicts what the site's own does, whatever it is made of."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pace.errors import FileError, SettingError
from pace.export import export_model
from pace.graph import Graph
from pace.models import MODELS, from_torch, sized
from pace.protocol import layouts
from pace.runtimes.files.site import Site
from pace_study.baselines.fedpub import NEGLIGIBLE, mask_of
from tests.export.models import graph, made
from tests.graphs import CLASSES, FEATURES
from tests.sealed import sealed_job

NETWORKS = {kind: {"model": sized(kind, FEATURES, 16, 2, CLASSES)} for kind in MODELS}
SETTINGS: dict[str, dict[str, Any]] = {
    **NETWORKS,
    "gcn, one layer": {"model": sized("gcn", FEATURES, 16, 1, CLASSES)},
    "gin, one layer": {"model": sized("gin:epsilon=0.3", FEATURES, 16, 1, CLASSES)},
    "gat, three layers": {"model": sized("gat:heads=4", FEATURES, 16, 3, CLASSES)},
    "sgc, no hop": {"model": sized("sgc:hops=0", FEATURES, 16, 2, CLASSES)},
    "appnp, all new": {"model": sized("appnp:teleport=1.0", FEATURES, 16, 2, CLASSES)},
    "two corrections": {"method": "pace-duo"},
    "regressions": {"method": "pace-ridge"},
    "every label": {"method": "pace-full"},
    "masks": {"method": "fedpub"},
    "sealed": {"of": sealed_job},
    "smoothing": {"method": "fedaux"},
    "averages": {"method": "fedavg"},
    "Local kept": {"share": 0.0},
    "External alone": {"share": 1.0},
}
WEIGHTED = ("gcn", "sgc", "appnp", "mlp", "regressions", "every label")


def answers(folder: Path, kind: str, of: Graph) -> tuple[Tensor, Tensor]:
    """Logits of the exported model, and of Local."""
    weights = torch.ones(of.edges.shape[1]) if of.weights is None else of.weights
    if kind == "torch":
        logits, local = torch.export.load(folder / "model.pt2").module()(of.x, of.edges, weights)
        return logits, local
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(folder / "model.onnx"))
    arrays = {"x": of.x, "edge_index": of.edges, "edge_weight": weights}
    outputs = session.run(
        ["logits", "local"], {name: value.numpy() for name, value in arrays.items()}
    )
    return torch.from_numpy(outputs[0]), torch.from_numpy(outputs[1])


def lonely(weighted: bool) -> Graph:
    """A single node without edges."""
    weights = torch.ones(0) if weighted else None
    none = torch.zeros(2, 0, dtype=torch.int64)
    return Graph.build(torch.rand(1, FEATURES), none, torch.zeros(1).long(), weights=weights)


# The program of ONNX is torch's, translated: every network is translated, not every depth and method.
TRANSLATED = (*MODELS, "regressions", "every label", "masks")


@pytest.mark.parametrize(
    ("kind", "what"),
    [("torch", what) for what in SETTINGS] + [("onnx", what) for what in TRANSLATED],
)
def test_predictions_are_the_sites_own(tmp_path: Path, kind: str, what: str) -> None:
    if kind == "onnx":
        pytest.importorskip("onnxscript")
    model = made(**SETTINGS[what])
    export_model(model, kind, tmp_path / "out")
    for weighted in (False, True) if what in WEIGHTED else (False,):
        for of in (lonely(weighted), graph(weighted=weighted)):
            if what == "every label":  # an exported model is given no labels of neighbours
                of = replace(of, train=torch.zeros_like(of.val), val=torch.zeros_like(of.val))
            expected = model(of)
            logits, local = answers(tmp_path / "out", kind, of)
            for ours, theirs in ((expected.logits, logits), (expected.local, local)):
                assert (ours.softmax(1) - theirs.softmax(1)).abs().max() < 1e-5
    assert (expected.logits.softmax(1) - 1 / CLASSES).abs().max() > 0.1  # it says something


def test_negligible_masks_are_zero_in_an_exported_model(tmp_path: Path) -> None:
    """As `pace client predict` has them: a huge weight under a mask just below 1e-3 does not count."""
    model = made(method="fedpub")
    for params in (model.local, *(external.params for external in model.externals)):
        name = next(name for name in params if mask_of(name) in params)
        params[mask_of(name)].fill_(0.9 * NEGLIGIBLE)
        params[name].fill_(1e6)
    export_model(model, "torch", tmp_path / "out")
    of = graph()
    expected = model(of)
    logits, local = answers(tmp_path / "out", "torch", of)
    torch.testing.assert_close(logits, expected.logits)
    torch.testing.assert_close(local, expected.local)
    assert float(local.abs().max()) < 1e3


def test_an_external_that_overflows_leaves_local_to_answer(tmp_path: Path) -> None:
    model = made()
    for value in model.externals[0].params.values():
        value.fill_(3e38)
    export_model(model, "torch", tmp_path / "out")
    logits, local = answers(tmp_path / "out", "torch", graph())
    assert torch.equal(logits, local)
    torch.testing.assert_close(logits, model(graph()).logits)


def test_classes_features_and_parts_are_told(tmp_path: Path) -> None:
    model = made(method="pace-ridge")
    export_model(model, "torch", tmp_path / "out")
    about = json.loads((tmp_path / "out" / "model.json").read_text())
    assert about["classes"] == list(model.job.classes)
    assert about["features"] == list(model.job.features)
    assert [part["name"] for part in about["parts"]] == [
        "Local",
        *(external.name for external in layouts.blank_externals(model.job.federation)),
    ]
    assert [part["weight"] for part in about["parts"]] == list(model.outcome.weights)


def test_parts_without_a_weight_are_left_out_and_each_other_keeps_its_own(tmp_path: Path) -> None:
    model = made(method="pace-ridge")
    weights = (0.1, 0.0, 0.6, *[0.0] * (len(model.externals) - 3), 0.3)
    outcome = replace(model.outcome, weights=weights, temperature=2.0, local_temperature=0.5)
    model = replace(model, outcome=outcome)
    export_model(model, "torch", tmp_path / "out")
    about = json.loads((tmp_path / "out" / "model.json").read_text())
    assert [part["weight"] for part in about["parts"]] == list(weights)
    assert about["temperature"] == 2.0  # of the logits that are used, which the file says it is for
    of = graph()
    logits, own = answers(tmp_path / "out", "torch", of)
    mixed = weights[0] * own
    for weight, external in zip(weights[1:], model.externals, strict=True):
        assert external.predict is not None
        mixed = mixed + weight * external.predict(external.params, of)
    torch.testing.assert_close(logits, mixed)


def test_the_program_runs_without_pace(tmp_path: Path) -> None:
    export_model(made(), "torch", tmp_path / "out")
    code = (
        "import sys, torch; sys.modules['pace'] = None\n"
        "model = torch.export.load('model.pt2').module()\n"
        f"logits, _ = model(torch.rand(4, {FEATURES}), torch.tensor([[0, 1], [1, 0]]), torch.ones(2))\n"
        f"assert logits.shape == (4, {CLASSES})"
    )
    subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path / "out", env={}, check=True)


class Own(torch.nn.Module):
    """A network of one's own that torch can trace."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.out = torch.nn.Linear(features, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.out(x).tanh()  # type: ignore[no-any-return]


class Branching(Own):
    """One that asks its features which way to go, which a trace cannot hold."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index) * (1 if float(x.sum()) > 0 else -1)


def test_a_network_of_ones_own_is_exported_if_torch_can_trace_it(tmp_path: Path) -> None:
    own, branching = (
        made(model=from_torch(kind, FEATURES, CLASSES, name=f"{__name__}:{kind.__name__}"))
        for kind in (Own, Branching)
    )
    export_model(own, "torch", tmp_path / "out")
    logits, _ = answers(tmp_path / "out", "torch", graph())
    torch.testing.assert_close(logits, own(graph()).logits)
    with pytest.raises(SettingError, match="torch cannot export this network of one's own"):
        export_model(branching, "torch", tmp_path / "branching")


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="expected one of torch, onnx"):
        export_model(made(), "keras", tmp_path / "keras")
    (tmp_path / "there").mkdir()
    with pytest.raises(FileError, match="already exists"):
        export_model(made(), "torch", tmp_path / "there")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there"]


def test_a_graph_beside_it_is_read_as_it_is(tmp_path: Path) -> None:
    of = graph(weighted=True)
    site = Site(of, tuple(f"n{node}" for node in range(of.nodes)), None)
    files = export_model(made(), "torch", tmp_path / "out", site)
    assert files == ["graph.npz", "model.json", "model.pt2"]
    arrays = np.load(tmp_path / "out" / "graph.npz")
    assert of.weights is not None
    for name, expected in (("x", of.x), ("edge_index", of.edges), ("edge_weight", of.weights)):
        assert torch.equal(torch.from_numpy(arrays[name]), expected)
