"""An exported model predicts what the site's own does, whatever it is made of."""

import ast
import importlib.util
import json
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from pace.errors import FileError, SettingError
from pace.export.folder import KINDS, export
from pace.graph import Graph
from pace.models import MODELS, from_torch, sized
from pace.runtimes.files.site import Site
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
    "masks": {"method": "fedpub"},
    "sealed": {"of": sealed_job},
    "averages": {"method": "fedavg"},
    "Local kept": {"share": 0.0},
    "External alone": {"share": 1.0},
}
WEIGHTED = ("gcn", "sgc", "appnp", "mlp", "regressions")


def network(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("network", folder / "network.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answers(folder: Path, kind: str, of: Graph) -> tuple[Tensor, Tensor]:
    """Logits of the exported model, and of Local."""
    weights = torch.ones(of.edges.shape[1]) if of.weights is None else of.weights
    if kind != "onnx":
        model, _ = network(folder).load(folder)
        given = (of.x, of.edges, *([] if of.weights is None else [weights]))
        return model(*given), model.local(*given)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(folder / "model.onnx"))
    arrays = {"x": of.x, "edge_index": of.edges, "edge_weight": weights}
    found = session.run(
        ["logits", "local"], {name: value.numpy() for name, value in arrays.items()}
    )
    return torch.from_numpy(found[0]), torch.from_numpy(found[1])


@pytest.mark.parametrize("what", SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_the_sites_own(tmp_path: Path, kind: str, what: str) -> None:
    if kind == "onnx":
        pytest.importorskip("onnx")
    model = made(**SETTINGS[what])
    export(model, kind, tmp_path / "out")
    for weighted in (False, True) if what in WEIGHTED else (False,):
        of = graph(weighted=weighted)
        expected = model(of)
        logits, local = answers(tmp_path / "out", kind, of)
        for ours, theirs in ((expected.logits, logits), (expected.local, local)):
            assert (ours.softmax(1) - theirs.softmax(1)).abs().max() < 1e-5
    assert (expected.logits.softmax(1) - 1 / CLASSES).abs().max() > 0.1  # it says something


def test_classes_features_and_parts_are_told(tmp_path: Path) -> None:
    model = made(method="pace-ridge")
    export(model, "torch", tmp_path / "out")
    about = json.loads((tmp_path / "out" / "model.json").read_text())
    assert about["classes"] == list(model.job.classes)
    assert about["features"] == list(model.job.features)
    assert [part["name"] for part in about["parts"]] == [
        "Local",
        *model.job.federation.method.parts,
    ]
    assert [part["weight"] for part in about["parts"]] == list(model.weights)


def test_a_part_without_weight_is_left_out_but_for_local(tmp_path: Path) -> None:
    export(made(share=0.0), "torch", tmp_path / "out")
    about = json.loads((tmp_path / "out" / "model.json").read_text())
    assert [part["name"] for part in about["parts"]] == ["Local"]


@pytest.mark.parametrize(
    ("file", "allowed"), [("network.py", set()), ("network_pyg.py", {"torch_geometric"})]
)
def test_what_is_shipped_imports_no_pace(file: str, allowed: set[str]) -> None:
    text = resources.files("pace.export").joinpath(file).read_text()
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert imported <= {"itertools", "json", "pathlib", "numpy", "torch"} | allowed


def test_what_has_no_form_outside_is_refused(tmp_path: Path) -> None:
    class Own(torch.nn.Module):
        def __init__(self, features: int, classes: int) -> None:
            super().__init__()
            self.out = torch.nn.Linear(features, classes)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.out(x)  # type: ignore[no-any-return]

    own = made(model=from_torch(Own, FEATURES, CLASSES, name="own:Own"))
    with pytest.raises(SettingError, match=r"a network of one's own \(own:Own\)"):
        export(own, "torch", tmp_path / "own")
    with pytest.raises(SettingError, match="Smoothed network, which the method brings"):
        export(made(method="fedaux"), "pyg", tmp_path / "aux")
    with pytest.raises(SettingError, match="expected one of torch, pyg, onnx"):
        export(made(), "keras", tmp_path / "keras")
    (tmp_path / "there").mkdir()
    with pytest.raises(FileError, match="already exists"):
        export(made(), "torch", tmp_path / "there")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there"]


def test_a_graph_beside_it_is_read_as_it_is(tmp_path: Path) -> None:
    of = graph(weighted=True)
    site = Site(of, tuple(f"n{node}" for node in range(of.nodes)), None)
    files = export(made(), "torch", tmp_path / "out", site)
    assert files == ["graph.npz", "model.json", "network.py", "weights.pt"]
    x, edges, weights = network(tmp_path / "out").load_graph(tmp_path / "out" / "graph.npz")
    assert torch.equal(x, of.x)
    assert torch.equal(edges, of.edges)
    assert of.weights is not None
    assert torch.equal(weights, of.weights)
