"""The operator's commands, with a SuperLink that answers as Flower's does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pace.jobs.job import write_job
from pace_network.commands import flower
from pace_network.flower.kits import provision
from tests.preloaded import Preloaded
from tests.sites import job


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    pytest.importorskip("cryptography")
    write_job(tmp_path / "job.pace", job())
    provision(tmp_path / "job.pace", "127.0.0.1", tmp_path / "kits")
    return tmp_path / "kits" / "server"


def answers(monkeypatch: pytest.MonkeyPatch, **replies: Any) -> list[str]:
    """A SuperLink that gives these replies; the calls it got."""
    pytest.importorskip("flwr", reason="needs pace-network[flower]: run `make test-flower`")
    from flwr.supercore.control import ControlHttpClient

    calls = []

    def call(client: object, **request: Any) -> Any:
        name = request["path"].rpartition("/")[2]
        calls.append(name)
        reply = replies[name.replace("-", "_")]
        if isinstance(reply, Exception):
            raise reply
        return reply

    monkeypatch.setattr(ControlHttpClient, "_unary_unary", call)
    return calls


def listed(status: str, why: str) -> Any:
    from flwr.proto.control_pb2 import ListRunsResponse
    from flwr.proto.run_pb2 import Run, RunStatus

    run = Run(run_id=5, bytes_recv=3, bytes_sent=4, pending_at="2026-11-16T00:00:00+00:00")
    run.status.CopyFrom(RunStatus(status="finished", sub_status=status, details=why))
    return ListRunsResponse(run_dict={5: run}, now="2026-11-16T00:00:09+00:00")


@pytest.mark.parametrize(
    ("status", "why", "code"), [("completed", "", 0), ("failed", "2 of at least 3", 1)]
)
def test_a_run_that_failed_is_a_command_that_failed(
    kit: Path, monkeypatch: pytest.MonkeyPatch, status: str, why: str, code: int
) -> None:
    """The operator is told why it did."""
    pytest.importorskip("flwr", reason="needs pace-network[flower]: run `make test-flower`")
    from flwr.proto.control_pb2 import ListNodesResponse, StartRunResponse

    from pace_network.flower import server

    runs = listed(status, why)
    answers(monkeypatch, start_run=StartRunResponse(run_id=5), list_runs=runs,
            list_nodes=ListNodesResponse())  # fmt: skip
    monkeypatch.setattr(
        server, "play_run", lambda control, number, *_: (control.ended(number), None)
    )
    for command in (["run"], ["status", "5"]):
        words = [*command, "--kit", str(kit)]
        done = CliRunner().invoke(flower.app, [*words, "--json"])
        assert done.exit_code == code, done.output
        found = json.loads(done.stdout)
        run = found if command == ["run"] else found["runs"][0]
        assert (run["run"], run["status"], run["bytes"]) == ("5", f"finished:{status}", 7)
        shown = CliRunner().invoke(flower.app, words)
        assert shown.exit_code == code
        assert f"finished:{status}" in shown.stdout
        assert ("2 of at least 3" in shown.stdout) is bool(code)


def test_a_node_is_registered_under_its_name_once(
    kit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("flwr", reason="needs pace-network[flower]: run `make test-flower`")
    import httpx
    from flwr.proto.control_pb2 import ListNodesResponse, RegisterNodeResponse
    from flwr.proto.node_pb2 import NodeInfo

    words = ["register", str(kit / "nodes/north.pub"), "--kit", str(kit), "--json"]
    answers(monkeypatch, register_node=RegisterNodeResponse(node_id=7))
    assert json.loads(CliRunner().invoke(flower.app, words).stdout) == {"nodes": {"north": "7"}}
    reply = httpx.Response(409, text='{"code": 23, "detail": "Public key already in use."}')
    known = httpx.HTTPStatusError("", request=httpx.Request("POST", "/"), response=reply)
    nodes = ListNodesResponse(nodes_info=[NodeInfo(node_id=8, name="north")])
    answers(monkeypatch, register_node=known, list_nodes=nodes)
    assert json.loads(CliRunner().invoke(flower.app, words).stdout) == {"nodes": {"north": "8"}}


def test_what_flower_says_is_told_in_a_sentence(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flwr", reason="needs pace-network[flower]: run `make test-flower`")
    import httpx

    from pace_network.exchange import FlowerError
    from pace_network.flower.control import Control
    from pace_network.flower.kits import ServerKit

    control = Control(ServerKit.read(kit))
    reply = httpx.Response(404, text='{"code": 18, "detail": "Run already finished."}')
    refused = httpx.HTTPStatusError("", request=httpx.Request("POST", "/"), response=reply)
    answers(monkeypatch, stop_run=refused)
    with pytest.raises(FlowerError, match="did not stop the run, it said: Run already finished"):
        control.stop("5")
    answers(monkeypatch, stop_run=httpx.ConnectError("refused"))
    with pytest.raises(FlowerError, match=r"no SuperLink answers at 127.0.0.1:18081 \(refused\)"):
        control.stop("5")


def test_without_flower_the_command_says_what_to_install(
    pace: Preloaded, kit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(sys.modules, "pace_network.flower.control", raising=False)
    done = CliRunner().invoke(flower.app, ["status", "--kit", str(kit)])
    assert "pace-network[flower]" in str(done.exception)


@pytest.mark.parametrize(
    ("option", "value"), [("deadline", "0"), ("delivery", "nan"), ("nodes", "north:5")]
)
def test_an_impossible_setting_is_refused_before_a_run_is_started(
    pace: Preloaded, kit: Path, option: str, value: str
) -> None:
    before = sorted(kit.iterdir())
    done = pace("flower", "run", f"--{option}", value, cwd=kit)
    assert done.code == 2
    assert f"{option} " in done.err
    assert "expected" in done.err
    assert sorted(kit.iterdir()) == before


def test_a_folder_that_is_no_kit_is_named(pace: Preloaded, tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    done = pace("flower", "status", cwd=tmp_path)
    assert done.code == 2
    assert "server.toml" in done.err
