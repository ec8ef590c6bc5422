"""The two Flower apps: what they exchange, what they refuse, and how they go on after a fault."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs pace-fgl[flower]: run `make test-flower`")

from flwr.app import Context, Message, RecordDict

from pace.errors import OtherJobError, ParticipantError
from pace.jobs import job_file, signatures
from pace.protocol import steps
from pace.protocol.number_formats import KINDS
from pace.runtimes.files import model
from pace.runtimes.flower import watchdog
from pace.runtimes.flower.records import Words, pack, payload, unpack
from pace.runtimes.flower.server import UnfinishedError, main
from tests.flowered import Clock, HomeGrid, answer, asking, configs, in_this_process, unavailable
from tests.graphs import clients
from tests.sites import NAMES, job, write_sites


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    in_this_process(monkeypatch)
    made = Clock()
    for module in ("exchange", "round"):
        monkeypatch.setattr(f"pace.runtimes.flower.{module}.time", made)
    return made


def run(root: Path, grid: HomeGrid, **config: Any) -> dict[str, Any]:
    """One run of the ServerApp; its report."""
    settings = {"job": str(root / "server" / "job.pace")} | config
    main(grid, Context(7, 1, {}, RecordDict(), settings))
    return report(root)


def report(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "server/job.report/report.json").read_bytes())
    return found


def files(root: Path, pattern: str) -> dict[str, bytes]:
    """By the place under `root`, so that a site's copy and the journal's are two."""
    found = [path for path in root.rglob(pattern) if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def only(root: Path, name: str) -> bytes:
    """The one file of this name under `root`."""
    (content,) = files(root, name).values()
    return content


@pytest.mark.parametrize("numbers", KINDS)
def test_apps_and_protocol_give_equal_bytes_and_alphas(tmp_path: Path, numbers: str) -> None:
    made = job(epochs=20, numbers=numbers)
    write_sites(tmp_path, made)
    grid = HomeGrid(configs(tmp_path, NAMES))
    found = run(tmp_path, grid)
    fitted = [steps.fit(graph, made.federation) for graph in clients(3)]
    uploads = [upload for _, upload in fitted]
    returns = steps.merge(uploads, made.federation)  # NAMES are in order
    for name, graph, (kept, upload), returned in zip(
        NAMES, clients(3), fitted, returns, strict=True
    ):
        assert set(files(tmp_path, f"{name}.up").values()) == {
            upload
        }  # at the site, in the journal
        assert set(files(tmp_path, f"{name}.down").values()) == {returned}
        (folder,) = (tmp_path / name / "state").glob("*/model")
        alpha = steps.adopt(graph, kept, returned, made.federation).alpha
        assert model.read(folder).alpha == alpha
    assert found["finished"]
    assert [(each["step"], each["code"]) for each in found["contacts"]] == [
        *[("upload", "ok")] * 3,
        *[("return", "ok")] * 3,
    ]


def test_only_uploads_leave_and_acknowledgements_are_empty(tmp_path: Path) -> None:
    write_sites(tmp_path, job())
    grid = HomeGrid(configs(tmp_path, NAMES))
    run(tmp_path, grid)
    assert [set(words) for words in grid.words] == [{"code", "name", "payload"}] * 3 + [set()] * 3


def test_a_server_chooses_nothing_at_a_node(tmp_path: Path) -> None:
    """Neither words in the message nor the run's settings change what is trained and where."""
    made = job()
    write_sites(tmp_path, made)
    (north, *_) = configs(tmp_path, NAMES).values()
    hostile = {"epochs": 10**9, "graph": "/etc/passwd", "folder": "/tmp", "name": "south"}
    reply = answer(asking({"job": made.digest, **hostile}, "upload"), north)
    honest = steps.fit(clients(3)[0], made.federation)[1]
    assert unpack(reply.content) == {"code": "ok", "name": "north", "payload": honest}


def test_a_node_refuses_another_job(tmp_path: Path) -> None:
    write_sites(tmp_path, job())
    (north, *_) = configs(tmp_path, NAMES).values()
    for digest in (job().digest, "../../elsewhere", ""):
        reply = answer(asking({"job": digest}, "upload"), north)
        assert unpack(reply.content) == {"code": OtherJobError.code}
    assert not list((tmp_path / "north" / "state").iterdir())


@pytest.mark.parametrize("config", [{}, {"name": "north"}, {"limit": "never"}])
def test_a_node_that_is_not_set_up_says_so_by_a_code(config: dict[str, Any]) -> None:
    reply = answer(asking({"job": "0" * 64}, "upload"), config)
    assert unpack(reply.content) == {"code": "setting"}


def test_the_text_of_an_exception_never_travels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("patient 17 of ward 3")

    monkeypatch.setattr(watchdog, "run", fail)
    write_sites(tmp_path, job())
    (north, *_) = configs(tmp_path, NAMES).values()
    reply = answer(asking({"job": "0" * 64}, "upload"), north)
    assert not reply.has_error()
    assert unpack(reply.content) == {"code": "failed"}
    assert "patient 17" in capsys.readouterr().err


def test_an_upload_of_an_old_job_is_refused(tmp_path: Path) -> None:
    """West replays what it sent in the job before."""
    old, new = tmp_path / "old", tmp_path / "new"
    for root in (old, new):
        write_sites(root, job(minimum=2))
    run(old, HomeGrid(configs(old, NAMES)))
    replayed = only(old / "west", "west.up")

    def replay(node: int, asked: Message, reply: Message) -> Message:
        if node != 13 or asked.metadata.message_type != "query.upload":
            return reply
        return Message(pack({"code": "ok", "name": "west", "payload": replayed}), reply_to=asked)

    found = run(new, HomeGrid(configs(new, NAMES), replay))
    assert [each["code"] for each in found["refused"]] == [OtherJobError.code]
    assert [each["name"] for each in found["took_part"]] == ["north", "south"]


@pytest.mark.parametrize("signed", [False, True])
def test_another_node_cannot_be_north(tmp_path: Path, signed: bool) -> None:
    """South's node sends north's own upload, under north's name and under its own."""
    changes: dict[str, Any] = {"minimum": 2}
    if signed:
        tmp_path.mkdir(exist_ok=True)
        changes["keys"] = {
            name: signatures.new(tmp_path / f"{name}.key", tmp_path / f"{name}.pub")
            for name in (*NAMES, "server")
        }
    write_sites(tmp_path, job(**changes))
    nodes = configs(tmp_path, NAMES)
    if signed:
        for config in nodes.values():
            config["key"] = str(tmp_path / f"{config['name']}.key")
    seen: dict[str, bytes] = {}

    def replay(node: int, asked: Message, reply: Message) -> Message:
        if asked.metadata.message_type == "query.upload" and node != 13:
            seen.setdefault("north", payload(unpack(reply.content)))
            if node == 12:
                words: Words = {"code": "ok", "name": claims, "payload": seen["north"]}
                return Message(pack(words), reply_to=asked)
        return reply

    more = {"key": str(tmp_path / "server.key")} if signed else {}
    for claims in ["north", "south"] if signed else ["north"]:
        journal = {"journal": str(tmp_path / f"{claims}.journal")}
        found = run(tmp_path, HomeGrid(nodes, replay), **journal, **more)
        assert [each["code"] for each in found["refused"]] == [ParticipantError.code]
        assert [each["name"] for each in found["took_part"]] == ["north", "west"]


def test_the_operator_may_fix_who_is_who(tmp_path: Path) -> None:
    """West is not invited; a node whose number is north's says it is south."""
    write_sites(tmp_path, job(minimum=1))
    found = HomeGrid(configs(tmp_path, NAMES))
    result = run(tmp_path, found, nodes="north=11,south=99,other=12")
    assert [each["name"] for each in result["took_part"]] == ["north"]
    assert {node for node, _ in found.sent} == {11, 12}
    assert [each["code"] for each in result["refused"]] == [ParticipantError.code]


def test_a_second_upload_is_refused_and_the_first_counts(tmp_path: Path) -> None:
    made = job(minimum=2)
    write_sites(tmp_path, made)
    nodes = configs(tmp_path, NAMES)
    with pytest.raises(UnfinishedError):  # of three, only north is there
        run(tmp_path, HomeGrid({11: nodes[11]}))
    first = only(tmp_path / "server", "north.up")
    other = steps.fit(clients(3)[1], made.federation)[1]
    (tmp_path / "server/job.journal/nodes/north.json").unlink()  # so that it is asked again

    def change(node: int, asked: Message, reply: Message) -> Message:
        if node != 11 or asked.metadata.message_type != "query.upload":
            return reply
        return Message(pack({"code": "ok", "name": "north", "payload": other}), reply_to=asked)

    with pytest.raises(UnfinishedError, match="north"):  # nobody knows where to send its return
        run(tmp_path, HomeGrid(nodes, change))
    assert [each["code"] for each in report(tmp_path)["refused"]] == ["second-upload"]
    assert only(tmp_path / "server", "north.up") == first


def silent(node: int, asked: Message, reply: Message) -> Message | None:
    return None if node == 13 else reply


def test_without_a_node_the_job_ends_by_its_minimum(tmp_path: Path, clock: Clock) -> None:
    write_sites(tmp_path, job(minimum=2))
    found = run(tmp_path, HomeGrid(configs(tmp_path, NAMES), silent), deadline=1000.0)
    assert 1000 <= clock.now < 1001
    assert found["missing"] == ["west"]
    assert [each["name"] for each in found["took_part"]] == ["north", "south"]
    assert ("13", "no-answer") in [(each["node"], each["code"]) for each in found["contacts"]]


def test_answers_that_are_here_at_the_deadline_count(tmp_path: Path, clock: Clock) -> None:
    """The server was busy when they came: it has not looked for them since."""

    class Busy(HomeGrid):
        def pull_messages(self, numbers: Iterable[str]) -> list[Message]:
            if clock.now < 1000:
                clock.sleep(1000)
                return []
            return super().pull_messages(numbers)

    write_sites(tmp_path, job())
    assert run(tmp_path, Busy(configs(tmp_path, NAMES)), deadline=1000.0)["finished"]


def test_a_job_without_a_list_takes_all_who_are_connected(tmp_path: Path, clock: Clock) -> None:
    write_sites(tmp_path, job(participants=(), minimum=2))
    found = run(tmp_path, HomeGrid(configs(tmp_path, NAMES)))
    assert clock.now < 10  # it does not wait for the deadline
    assert [each["name"] for each in found["took_part"]] == list(NAMES)


def test_too_few_uploads_fail_and_a_new_run_goes_on(tmp_path: Path) -> None:
    write_sites(tmp_path, job(minimum=3))
    nodes = configs(tmp_path, NAMES)
    with pytest.raises(UnfinishedError, match="2 of at least 3"):
        run(tmp_path, HomeGrid(nodes, silent))
    assert not files(tmp_path, "*.down")
    again = HomeGrid(nodes)
    assert run(tmp_path, again)["finished"]
    assert [each for each in again.sent if each[1] == "query.upload"] == [(13, "query.upload")]


def test_killed_between_the_exchanges_a_new_run_sends_the_same_returns(tmp_path: Path) -> None:
    write_sites(tmp_path, job())
    nodes = configs(tmp_path, NAMES)

    class Killed(BaseException):
        pass

    def kill(node: int, asked: Message, reply: Message) -> Message:
        if asked.metadata.message_type == "query.return":
            raise Killed
        return reply

    with pytest.raises(Killed):
        run(tmp_path, HomeGrid(nodes, kill))
    before = files(tmp_path / "server", "*.down")
    assert len(before) == 3
    for _ in range(2):  # finished ones get the same bytes once more, and apply them once
        again = HomeGrid(nodes)
        assert run(tmp_path, again)["finished"]
        assert {kind for _, kind in again.sent} == {"query.return"}
        assert files(tmp_path / "server", "*.down") == before
        for name in NAMES:
            assert only(tmp_path / name, "*.down") == only(tmp_path / "server", f"{name}.down")


def test_a_lost_answer_is_asked_for_again(tmp_path: Path) -> None:
    write_sites(tmp_path, job())
    lost = [False]

    def lose(node: int, asked: Message, reply: Message) -> Message:
        if node == 12 and not lost[0]:
            lost[0] = True
            return unavailable(asked)
        return reply

    grid = HomeGrid(configs(tmp_path, NAMES), lose)
    found = run(tmp_path, grid)
    assert found["finished"]
    south = [each["code"] for each in found["contacts"] if each["node"] == "12"]
    assert south == ["flower-5", "ok", "ok"]
    assert "somebody's text" not in json.dumps(found)


def test_a_return_that_is_not_mine_is_refused_and_local_stays(tmp_path: Path) -> None:
    made = job()
    write_sites(tmp_path, made)
    (north, south, _) = configs(tmp_path, NAMES).values()
    asked = asking({"job": made.digest}, "upload")
    uploads = [payload(unpack(answer(asked, each).content)) for each in (north, south)]
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
    reply = answer(asking({"job": made.digest, "payload": mine}, "return"), north)
    assert not reply.content
    (folder,) = (tmp_path / "north/state").glob("*/model")
    assert job_file.read(folder / "job.pace").digest == made.digest


def of_another_job() -> bytes:
    other = job().federation
    return steps.merge([steps.fit(clients(3)[0], other)[1]], other)[0]


def test_simulated_nodes_are_the_sites_of_a_folder_in_order(tmp_path: Path) -> None:
    """They all live in one process: what tells them apart is their context, and nothing else."""
    from pace.errors import SettingError
    from pace.runtimes.flower import simulated

    write_sites(tmp_path, job())

    def context(number: int, sites: str) -> Context:
        given = {"partition-id": number, "num-partitions": 3}
        return Context(7, 11 + number, given, RecordDict(), {"sites": sites})

    found = [simulated.settings(context(number, str(tmp_path))) for number in range(3)]
    assert [each["name"] for each in found] == list(NAMES)
    assert found[1]["graph"] == str(tmp_path / "south" / "mine.graph")
    for number, sites in ((3, str(tmp_path)), (0, "")):
        with pytest.raises(SettingError, match="sites"):
            simulated.settings(context(number, sites))


def test_a_real_node_takes_no_path_from_the_run(tmp_path: Path) -> None:
    """Set up as the simulation's nodes are, it is not set up at all."""
    write_sites(tmp_path, job())
    reply = answer(asking({"job": "0" * 64}, "upload"), {"partition-id": 0, "num-partitions": 3})
    assert unpack(reply.content) == {"code": "setting"}
