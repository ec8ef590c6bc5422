import json
from pathlib import Path

import pytest
import torch
import typer
from benchmarks import __main__ as bench
from benchmarks import measure, peers
from benchmarks.clock import compared, peak
from benchmarks.server import Repeated, upload
from typer.testing import CliRunner

from pace.cli import given
from pace.errors import SettingError
from pace.merging.carrier import unpack
from pace.merging.moments import normalised, propagated
from pace.methods import Pace
from pace.models import MODELS, sized
from pace.models.gcn import GCN
from pace.protocol.federation import Federation
from pace.protocol.uploads import Messages
from pace.training.train import train
from tests.graphs import CLASSES, FEATURES, clients, federation


def test_the_naive_merge_returns_what_ours_does() -> None:
    """A comparison of speeds is one only between equal answers."""
    agreed = Federation(GCN((300, 64, 7)), Pace())
    uploads = [upload(agreed, seed) for seed in range(5)]
    naive = peers.dense_merge(uploads, agreed.start, 6)
    ours = list(agreed.method.merge(Messages(uploads), agreed))
    for theirs, own in zip(naive, ours, strict=True):
        for name in agreed.start:
            left, right = (unpack(each, [name])[name] for each in (theirs, own))
            dense = [
                each if isinstance(each, torch.Tensor) else each.dense() for each in (left, right)
            ]
            torch.testing.assert_close(dense[0].double(), dense[1].double(), rtol=1e-3, atol=1e-3)


def test_the_naive_moments_are_the_moments() -> None:
    graph = clients(1)[0]
    gcn = GCN((FEATURES, 16, CLASSES))
    local = train(graph, gcn, gcn.start(0), recipe=federation(Pace()).recipe, seed=0)
    naive = peers.dense_moments(local, graph, gcn)
    for ours, theirs in zip(propagated(gcn(local, graph), graph).values(), naive, strict=True):
        torch.testing.assert_close(ours, normalised(theirs))


def test_the_peer_trains() -> None:
    graph = clients(1)[0]
    torch.manual_seed(0)  # PyG's layers draw from the global generator
    net = peers.network("gcn", GCN((FEATURES, 16, CLASSES)))
    peers.train_loop(net, graph, 100)
    hits = (net.eval()(graph.x, graph.edges).argmax(1) == graph.y)[graph.train]
    assert float(hits.float().mean()) > 0.8


def test_a_ratio_is_the_peers_time_over_ours() -> None:
    row = compared("a", "b", lambda: None, ("nothing", lambda: sum(range(20000))), turns=3)
    low, high = row.spread
    assert low <= row.ratio <= high
    assert row.peer == "nothing"


def test_repeated_uploads_are_a_sequence() -> None:
    many = Repeated([b"a", b"b"], 5)
    assert len(many) == 5
    assert b"".join(many) == b"ababa"


def test_the_peak_only_rises() -> None:
    before = peak()
    held = torch.ones(2**24)
    assert peak() >= before
    assert len(held)


def command() -> typer.Typer:
    app = typer.Typer()
    app.command()(bench.bench)
    return app


@pytest.mark.slow
def test_the_command_writes_numbers_and_a_picture(tmp_path: Path) -> None:
    done = CliRunner().invoke(command(), ["--quick", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "bench.json").read_text())
    assert {row["what"] for row in found["compared"]} >= {"training", "study", "merge", "adopt"}
    assert found["server"]
    assert found["scale"]
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_an_unknown_part_is_refused() -> None:
    done = CliRunner().invoke(command(), ["--only", "speed"])
    assert done.exit_code != 0


@pytest.mark.parametrize("kind", MODELS)
def test_the_peer_of_a_model_is_the_same_network(kind: str) -> None:
    """As many parameters of the same shapes, and one round of the comparison runs."""
    model = sized(kind, FEATURES, 16, 2, CLASSES)
    peer = peers.network(kind, model)
    theirs = sorted(tuple(value.shape) for value in peer.parameters())
    assert theirs == sorted(model.shapes.values())
    graph = clients(1)[0]
    peers.train_loop(peer, graph, 3)
    assert peer.eval()(graph.x, graph.edges).shape == (graph.nodes, CLASSES)


def test_every_model_is_compared() -> None:
    rows = list(measure.every_model("small", clients(1), GCN((FEATURES, 64, CLASSES)), "cpu", 1))
    assert [row.what for row in rows] == [f"training {kind}" for kind in MODELS]
    assert all(row.ratio > 0 for row in rows)


def test_the_commands_comparison_says_what_it_lacks_before_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plain script that imports scikit-learn, and knows five datasets."""
    with pytest.raises(SettingError, match="nothing to compare synthetic with: its plain script"):
        bench.bench(only="command", datasets="synthetic")
    monkeypatch.setattr(given, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match=r"needs sklearn: pip install 'pace-fgl\[dev\]'"):
        bench.bench(only="command", datasets="synthetic,cora")
