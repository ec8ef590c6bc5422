"""What is exchanged and refused in Flower's messages. The round itself is tested without Flower."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs pace-network[flower]: run `make test-flower`")

from flwr.app import Message

from pace.errors import NotAllowedError, OtherJobError
from pace.io import plugins
from pace.jobs.job import read_job
from pace.models import sized
from pace.protocol import steps
from pace_network import site_steps
from pace_network.flower import server
from pace_network.flower.control import Control
from pace_network.flower.kits import ServerKit
from pace_network.flower.tasks import unpack
from tests import own_methods
from tests.flowered import HomeGrid, answer, asking, unavailable
from tests.graphs import CLASSES, FEATURES, clients
from tests.networked import files, server_settings, site_nodes
from tests.sites import NAMES, job, roll, write_sites

pytestmark = pytest.mark.usefixtures("clock")


def run(root: Path, grid: HomeGrid, **changes: Any) -> dict[str, Any]:
    """One run of the job without a SuperLink; its report."""

    @contextmanager
    def carried(runtime: object, number: int) -> Iterator[HomeGrid]:
        yield grid

    for name in ("ca.crt", "secret"):
        (root / name).touch()
    control = Control(ServerKit(1, root))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "carrying_out", carried)
        patch.setattr(Control, "ended", lambda control, number: None)
        server.play_run(control, "7", server_settings(root, **changes), lambda event: None)
    found: dict[str, Any] = json.loads((root / "server/job.report/report.json").read_bytes())
    return found


@pytest.mark.parametrize("kind", ["gcn", "sage"])
def test_server_and_nodes_exchange_the_bytes_of_the_protocol(tmp_path: Path, kind: str) -> None:
    made = job(model=sized(kind, FEATURES, 16, 2, CLASSES))
    write_sites(tmp_path, made)
    grid = HomeGrid(site_nodes(tmp_path, NAMES))
    assert run(tmp_path, grid)["finished"]
    uploads = [steps.fit(graph, made.federation)[1] for graph in clients(3)]
    returns = steps.merge(uploads, made.federation)
    for name, upload, returned in zip(NAMES, uploads, returns, strict=True):
        assert set(files(tmp_path, f"{name}.up").values()) == {upload}
        assert set(files(tmp_path, f"{name}.down").values()) == {returned}
    assert [set(words) for words in grid.words] == [{"code", "name", "payload"}] * 3 + [set()] * 3


def test_a_run_that_is_not_finished_has_a_report_all_the_same(tmp_path: Path) -> None:
    write_sites(tmp_path, job())

    def silent(node: int, asked: Message, reply: Message) -> Message | None:
        return None if node == 13 else reply

    found = run(tmp_path, HomeGrid(site_nodes(tmp_path, NAMES), silent))
    assert "2 of at least 3" in found["waiting"]
    assert not found["finished"]
    assert (tmp_path / "server/job.report/report.md").exists()


def test_a_server_chooses_nothing_at_a_node(tmp_path: Path) -> None:
    """No word in the message changes what is trained and where."""
    made = job()
    write_sites(tmp_path, made)
    (north, *_) = site_nodes(tmp_path, NAMES).values()
    hostile = {"epochs": 10**9, "graph": "/etc/passwd", "folder": "/tmp", "name": "south"}
    reply = answer(asking({"job": made.digest, **hostile}, "upload"), north)
    honest = steps.fit(clients(3)[0], made.federation)[1]
    assert unpack(reply.content) == {"code": "ok", "name": "north", "payload": honest}


def test_a_node_refuses_another_job(tmp_path: Path) -> None:
    write_sites(tmp_path, job())
    (north, *_) = site_nodes(tmp_path, NAMES).values()
    for digest in (job().digest, "../../elsewhere", ""):
        reply = answer(asking({"job": digest}, "upload"), north)
        assert unpack(reply.content) == {"code": OtherJobError.code}
    assert not list((tmp_path / "north" / "state").iterdir())


def test_the_text_of_an_exception_never_travels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **named: Any) -> None:
        raise RuntimeError("patient 17 of ward 3")

    monkeypatch.setattr(site_steps, "make_upload", fail)
    write_sites(tmp_path, job())
    (north, *_) = site_nodes(tmp_path, NAMES).values()
    reply = answer(asking({"job": "0" * 64}, "upload"), north)
    assert not reply.has_error()
    assert unpack(reply.content) == {"code": "failed"}
    assert "patient 17" in capsys.readouterr().err


def test_a_lost_answer_is_asked_for_again(tmp_path: Path) -> None:
    write_sites(tmp_path, job())
    lost = [False]

    def lose(node: int, asked: Message, reply: Message) -> Message:
        if node == 12 and not lost[0]:
            lost[0] = True
            return unavailable(asked)
        return reply

    grid = HomeGrid(site_nodes(tmp_path, NAMES), lose)
    found = run(tmp_path, grid)
    assert found["finished"]
    south = [each["code"] for each in found["contacts"] if each["node"] == "12"]
    assert south == ["flower-5", "ok", "ok"]
    assert "somebody's text" not in json.dumps(found)


def test_a_return_that_is_not_mine_is_refused_and_local_stays(tmp_path: Path) -> None:
    made = job()
    write_sites(tmp_path, made)
    (north, south, _) = site_nodes(tmp_path, NAMES).values()
    asked = asking({"job": made.digest}, "upload")
    uploads = [unpack(answer(asked, each).content)["payload"] for each in (north, south)]
    mine, others = steps.merge(uploads, made.federation)
    before = files(tmp_path / "north", "*")
    refusals = {
        "other-receiver": others,
        "damaged": mine[:-1] + bytes([mine[-1] ^ 1]),
        "size": mine + b"more",
        "other-job": of_another_job(),
    }
    for code, returned in refusals.items():
        reply = answer(asking({"job": made.digest, "payload": returned}, "return"), north)
        assert unpack(reply.content) == {"code": code}
        assert files(tmp_path / "north", "*") == before
    called = roll(made, "north", uploads[0], mine)
    for wrong in (b"", called.replace(b"south", b"east"), roll(made, "south", uploads[0], mine)):
        words = {"job": made.digest, "payload": mine, "roll": wrong}
        assert unpack(answer(asking(words, "return"), north).content) == {"code": "roll"}
        assert files(tmp_path / "north", "*") == before
    words = {"job": made.digest, "payload": mine, "roll": called}
    assert not answer(asking(words, "return"), north).content
    (folder,) = (tmp_path / "north/state").glob("*/model")
    assert read_job(folder / "job.pace").digest == made.digest


def of_another_job() -> bytes:
    other = job().federation
    return steps.merge([steps.fit(clients(3)[0], other)[1]], other)[0]


def test_a_method_of_ones_own_runs_where_server_and_nodes_allow_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    name = own_methods.write(tmp_path)
    with plugins.allowing([name]):
        made = job(method=name, settings={"part": 1.0})
        write_sites(tmp_path, made)
    monkeypatch.delitem(sys.modules, "own_scaled")
    (tmp_path / "own_scaled.imported").unlink()
    with pytest.raises(NotAllowedError, match=f"--allow {name}"):
        run(tmp_path, HomeGrid(site_nodes(tmp_path, NAMES)))
    monkeypatch.setenv("PACE_ALLOW", name)  # as `--allow` does at the server
    grid = HomeGrid(site_nodes(tmp_path, NAMES, allow=(name,)))
    assert run(tmp_path, grid)["finished"]
    uploads = [steps.fit(graph, made.federation)[1] for graph in clients(3)]
    assert set(files(tmp_path, "north.up").values()) == {uploads[0]}
