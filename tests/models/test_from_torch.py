"""Modules of one's own: the built-in models' numbers through `from_torch`, and what a job may import."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg

from pace.errors import NotAllowedError, SettingError
from pace.io import allow
from pace.jobs import explain
from pace.jobs.disclosure import disclosure
from pace.jobs.job import Job, read_job, write_job
from pace.merging.moments import propagated, raw
from pace.methods import Pace, make
from pace.models import GAT, GCN, Model, from_torch, kind_of
from pace.models import make as make_model
from pace.protocol import steps
from pace.protocol.federation import Federation
from tests.graphs import CLASSES, FEATURES, clients
from tests.models.test_edges import weighted

NAME = "tests.models.test_from_torch:convolutions"


class Convolutions(nn.Module):
    """Two of PyG's convolutions, dropout between them."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        more = () if edge_weight is None else (edge_weight,)
        hidden = self.drop(self.first(x, edge_index, *more).relu())
        logits: Tensor = self.second(hidden, edge_index, *more)
        return logits


def convolutions(features: int, classes: int) -> nn.Module:
    return Convolutions(pyg.GCNConv(features, 16), pyg.GCNConv(16, classes))


class Mixed(nn.Module):
    """Norms, an embedding, a shared linear layer and one that reads edges."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(FEATURES, 8)
        self.norm = pyg.BatchNorm(8)
        self.layer_norm = nn.LayerNorm(8)
        self.shared = nn.Linear(8, 8, bias=False)
        self.on_edges = nn.Linear(16, 1)
        self.scale = nn.Parameter(torch.ones(8))
        self.out = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.layer_norm(self.norm(self.into(x))).relu() * self.scale
        hidden = self.shared(self.shared(hidden).relu())
        source, target = edge_index
        gate = self.on_edges(torch.cat([hidden[source], hidden[target]], 1)).sigmoid()
        around = torch.zeros_like(hidden).index_add(0, target, gate * hidden[source])
        logits: Tensor = self.out(hidden + around)
        return logits


def same(ours: Model, theirs: Model, names: dict[str, str], weights: bool = False) -> None:
    """Equal logits and equal moments, parameter by parameter."""
    graph = weighted(directed=False) if weights else clients(1)[0]
    params = dict(theirs.start(4))
    state = {names[name]: value for name, value in params.items()}
    assert {name: tuple(value.shape) for name, value in state.items()} == dict(ours.shapes)
    one, other = ours(state, graph), theirs(params, graph)
    torch.testing.assert_close(one.logits, other.logits)
    for geometry in (propagated, raw):
        moments, expected = geometry(one, graph), geometry(other, graph)
        assert {names[name] for name in expected} == set(moments)
        for name, moment in expected.items():
            torch.testing.assert_close(moments[names[name]], moment)
    assert set(ours.averaged) == {names[name] for name in theirs.averaged}


@pytest.mark.parametrize("weights", [False, True])
def test_the_gcn_through_from_torch_has_the_gcns_moments(weights: bool) -> None:
    names = {
        f"{layer}.{ours}": f"{place}.{theirs}"
        for layer, place in enumerate(("first", "second"))
        for ours, theirs in (("weight", "lin.weight"), ("bias", "bias"))
    }
    model = from_torch(convolutions, FEATURES, CLASSES)
    assert model.reads_weights
    same(model, GCN((FEATURES, 16, CLASSES)), names, weights)


def test_the_gat_through_from_torch_has_the_gats_moments() -> None:
    module = Convolutions(
        pyg.GATConv(FEATURES, 4, heads=4), pyg.GATConv(16, CLASSES, heads=4, concat=False)
    )
    parts = {
        "weight": "lin.weight",
        "attention.source": "att_src",
        "attention.target": "att_dst",
        "bias": "bias",
    }
    names = {
        f"{layer}.{ours}": f"{place}.{theirs}"
        for layer, place in enumerate(("first", "second"))
        for ours, theirs in parts.items()
    }
    same(from_torch(module, FEATURES, CLASSES), GAT((FEATURES, 16, CLASSES), heads=4), names)


def test_what_has_no_rows_of_nodes_is_averaged_and_named() -> None:
    model = from_torch(Mixed(), FEATURES, CLASSES)
    graph = clients(1)[0]
    seen = model(model.start(1), graph)
    assert set(seen.inputs) == {"into.weight", "shared.weight", "out.weight"}
    assert set(model.averaged) == set(model.shapes) - set(seen.inputs)
    assert seen.inputs["shared.weight"][graph.train].shape == (int(graph.train.sum()), 2, 8)
    agreed = Federation(model, Pace(), 7, 3)
    message = agreed.method.share(agreed.start, graph, agreed)
    said = {item.name: item.words for item in disclosure(message, agreed).items}
    assert "plain mean" in said["on_edges.weight"]
    assert "plain mean" in said["norm.module.weight"]
    assert "plain mean" not in said["into.weight/L"]


def test_batch_norm_is_of_the_graph_it_is_given() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8))
    rows = torch.rand(20, FEATURES)
    expected = module.train()(rows)

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            result: Tensor = self.inner(x)
            return result

    model = from_torch(Wrapped(), FEATURES, 8)
    from pace.graph import Graph

    graph = Graph.build(rows, torch.zeros(2, 0), torch.zeros(20).long())
    params = {name: value.detach() for name, value in Wrapped().named_parameters()}
    torch.testing.assert_close(model(params, graph).logits, expected)
    assert not any("running" in name for name in model.shapes)
    assert isinstance(module[1], nn.BatchNorm1d)  # the module itself stays as it was


@pytest.mark.parametrize("method", ["pace", "pace-duo", "fedavg", "pace-limited"])
def test_one_round_and_its_noise_is_the_clients_own(method: str) -> None:
    graphs = clients(3)
    agreed = Federation(from_torch(convolutions, FEATURES, CLASSES), make(method), 7, 4)
    fitted = []
    for graph in graphs:
        torch.manual_seed(int(torch.randint(1000, (1,))))  # whoever else uses torch's generator
        fitted.append(steps.fit(graph, agreed))
    again = [steps.fit(graph, agreed)[1] for graph in reversed(graphs)][::-1]
    assert [upload for _, upload in fitted] == again
    state = torch.get_rng_state()
    returns = steps.merge(again, agreed)
    adoption = steps.adopt(graphs[0], fitted[0][0], returns[0], agreed)
    assert torch.isfinite(adoption.logits).all()
    assert torch.equal(torch.get_rng_state(), state)


def test_the_start_comes_from_the_seed() -> None:
    for module in (convolutions, convolutions(FEATURES, CLASSES)):
        model = from_torch(module, FEATURES, CLASSES)
        one, again, other = (model.start(seed) for seed in (1, 1, 2))
        assert all(torch.equal(value, again[name]) for name, value in one.items())
        assert not torch.equal(one["first.lin.weight"], other["first.lin.weight"])


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (nn.Identity(), "has no parameters"),
        (lambda features, classes: 3, "the factory made a int"),
        (Mixed(), r"returned \(3, 4\) for 3 nodes, expected \(3, 9\)"),
    ],
)
def test_what_cannot_be_a_model_is_refused(module: object, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        from_torch(module, FEATURES, 9)  # type: ignore[arg-type]


def test_a_torch_module_in_place_of_a_model_is_answered_with_from_torch() -> None:
    with pytest.raises(TypeError, match=r"pace\.from_torch\(module, features, classes\)"):
        Federation(nn.Linear(2, 2), Pace())  # type: ignore[arg-type]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    job = Job("own", from_torch(convolutions, FEATURES, CLASSES, name=NAME), epochs=3)
    write_job(tmp_path / "job.pace", job)
    return tmp_path / "job.pace"


def test_a_job_imports_nothing_that_the_site_did_not_allow(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PACE_ALLOW", raising=False)
    with pytest.raises(NotAllowedError, match=f"--allow {NAME}"):
        read_job(written)
    code = (
        "import sys\nfrom pathlib import Path\nfrom pace.jobs.job import read_job\n"
        f"try:\n    read_job(Path({str(written)!r}))\nexcept Exception as error:\n"
        "    print(type(error).__name__, 'tests' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["NotAllowedError", "False"], done.stderr


def test_an_allowed_job_is_the_same_job_everywhere(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACE_ALLOW", f"other.package:net,{NAME}")
    job = read_job(written)
    assert kind_of(job.model) == NAME
    bare = Job("own", from_torch(convolutions, FEATURES, CLASSES, name=NAME), epochs=3)
    assert job.model.shapes == bare.model.shapes
    assert NAME in explain.job_facts(job)["model"]
    assert job.content["model"]["structure"] == bare.content["model"]["structure"]
    text = written.read_text()
    assert "dropout" not in text.split("[training]")[0]
    monkeypatch.setattr(f"{__name__}.convolutions", lambda features, classes: Mixed())
    with pytest.raises(SettingError, match=r"its model.start is|its model.structure is"):
        read_job(written)


def test_names_are_needed_and_must_exist() -> None:
    with pytest.raises(SettingError, match="needs a name"):
        kind_of(from_torch(convolutions, FEATURES, CLASSES))
    allow("nowhere.at.all:net")
    with pytest.raises(SettingError, match="cannot be imported"):
        make_model("nowhere.at.all:net", (3, 2))
    allow("tests.models.test_from_torch:Mixed")
    with pytest.raises(SettingError, match="a function of features and classes"):
        make_model("tests.models.test_from_torch:Mixed", (3, 2))
