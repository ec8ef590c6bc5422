import json

import pytest
import torch
from benchmarks import __main__ as bench
from benchmarks import rows
from benchmarks.clock import child, command, compared, cost, peak
from typer import BadParameter

from pace.models import MODELS, sized
from pace.models.networks import GCN, SGC
from tests.graphs import CLASSES, FEATURES, clients


def test_the_peer_trains() -> None:
    graph = clients(1)[0]
    torch.manual_seed(0)  # PyG's layers draw from the global generator
    net = bench.network(GCN((FEATURES, 16, CLASSES)))
    bench.train_loop(net, graph, 100)
    hits = (net.eval()(graph.x, graph.edges).argmax(1) == graph.y)[graph.train]
    assert float(hits.float().mean()) > 0.8


def test_a_ratio_is_the_peers_time_over_ours() -> None:
    row = compared("a", "b", "nothing", [(1.0, 3.0), (2.0, 4.0), (1.0, 5.0)])
    assert (row["lowest"], row["times_faster"], row["highest"]) == (2.0, 3.0, 5.0)
    assert row["ms"] == 1000.0
    pairs = bench.in_turns(clients(1), GCN((FEATURES, 16, CLASSES)), [7], "cpu", 2)
    assert len(pairs) == 2
    assert min(map(min, pairs)) > 0


def test_work_is_timed_and_its_result_kept() -> None:
    result, taken = cost(lambda: sum(range(10**6)))
    assert result == sum(range(10**6))
    assert taken["cpu_seconds"] > 0
    assert taken["seconds"] > 0
    assert taken["peak_mb"] <= peak()


def test_the_peak_only_rises() -> None:
    before = peak()
    held = torch.ones(2**24)
    assert peak() >= before
    assert len(held)


def test_a_child_says_what_it_took_and_printed() -> None:
    taken, printed = child("-c", "held = bytearray(2**27); print(len(held)); sum(range(10**7))")
    assert printed == f"{2**27}\n"
    assert taken["cpu_seconds"] > 0
    assert 128 < taken["anonymous_mb"] <= taken["peak_mb"] < 256
    with pytest.raises(SystemExit, match="ended with 3"):
        child("-c", "raise SystemExit(3)")


@pytest.mark.slow
def test_every_part_is_measured() -> None:
    machine, *points = bench.main(turns=1)
    assert machine["device"]
    parts = ("training", "models", "server", "sealing")  # no script reads the embedded graph
    assert tuple(dict.fromkeys(point["part"] for point in points)) == parts
    assert points[0]["times_faster"] > 0


@pytest.mark.parametrize("who", ["pace", "ridge", "sgd", "command"])
def test_rows_are_fitted(who: str) -> None:
    (found,) = rows.main(who, 300)
    assert found["rows"] == 300
    assert found["cpu_seconds"] > 0


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(BadParameter, match="--only names speed, expected some of command, tra"):
        list(bench.main(only="speed,training"))


def test_a_program_prints_json_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["rows", "pace", "300"])
    with pytest.raises(SystemExit):
        command(rows.main)
    assert json.loads(capsys.readouterr().out)["rows"] == 300


@pytest.mark.parametrize("kind", MODELS)
def test_the_peer_of_a_model_is_the_same_network(kind: str) -> None:
    """As many parameters of the same shapes, and one round of the comparison runs."""
    model = sized(kind, FEATURES, 16, 2, CLASSES)
    peer = bench.network(model)
    theirs = sorted(tuple(value.shape) for value in peer.parameters())
    assert theirs == sorted(model.shapes.values())
    graph = clients(1)[0]
    bench.train_loop(peer, graph, 3)
    assert peer.eval()(graph.x, graph.edges).shape == (graph.nodes, CLASSES)


def test_the_peer_of_an_sgc_travels_as_far() -> None:
    """Parameters do not show it: an SGC of any number of hops has the same."""
    model = sized("sgc", FEATURES, 16, 2, CLASSES)
    assert isinstance(model, SGC)
    assert bench.network(model).K == model.hops == 2


def test_every_model_is_compared() -> None:
    rows = list(bench.every_model("small", clients(1), "cpu", 1))
    assert [row["what"] for row in rows] == [f"training {kind}" for kind in MODELS]
    assert all(float(row["times_faster"]) > 0 for row in rows)
