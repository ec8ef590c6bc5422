"""The round over an engine in memory: what it exchanges, refuses, and how it goes on after a fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pace.errors import OtherJobError, ParticipantError
from pace.jobs import signatures
from pace.jobs.explain import MessageSizes
from pace.models import sized
from pace.protocol import steps
from pace.protocol.number_formats import KINDS
from pace.runtimes.files import model
from pace_network.exchange import MENDING, RETURN, UPLOAD, EngineError, Reply, Words
from pace_network.round import RoundReport, round_sentences, run_round
from tests.graphs import CLASSES, FEATURES, clients
from tests.in_memory import InMemory, LostError
from tests.networked import Clock, connected, files, only, run, server_settings, site_nodes
from tests.sites import NAMES, job, write_sites

pytestmark = pytest.mark.usefixtures("clock")


@pytest.mark.parametrize(
    ("numbers", "kind"), [*((numbers, "gcn") for numbers in KINDS), ("float32", "sage")]
)
def test_round_and_protocol_give_equal_bytes_and_alphas(
    tmp_path: Path, numbers: str, kind: str
) -> None:
    made = job(epochs=20, numbers=numbers, model=sized(kind, FEATURES, 16, 2, CLASSES))
    write_sites(tmp_path, made)
    found = run(tmp_path, connected(site_nodes(tmp_path, NAMES)))
    fitted = [steps.fit(graph, made.federation) for graph in clients(3)]
    uploads = [upload for _, upload in fitted]
    returns = steps.merge(uploads, made.federation)  # NAMES are in order
    for name, graph, (kept, upload), returned in zip(
        NAMES, clients(3), fitted, returns, strict=True
    ):
        # at the site, and in the journal
        assert set(files(tmp_path, f"{name}.up").values()) == {upload}
        assert set(files(tmp_path, f"{name}.down").values()) == {returned}
        (folder,) = (tmp_path / name / "state").glob("*/model")
        alpha = steps.adopt(graph, kept, returned, made.federation).alpha
        assert model.read_model(folder).outcome.alpha == alpha
        assert f"the model of {name}" in (folder / model.PAGE).read_text()
    assert found["finished"]
    assert [(each["step"], each["code"]) for each in found["contacts"]] == [
        *[("upload", "ok")] * 3,
        *[("return", "ok")] * 3,
    ]


def test_only_uploads_leave_and_acknowledgements_are_empty(tmp_path: Path) -> None:
    write_sites(tmp_path, job())
    nodes = connected(site_nodes(tmp_path, NAMES))
    run(tmp_path, nodes)
    assert nodes.said == [{"code", "name", "payload"}] * 3 + [set()] * 3


def test_an_upload_of_an_old_job_is_refused(tmp_path: Path) -> None:
    """West replays what it sent in the job before."""
    old, new = tmp_path / "old", tmp_path / "new"
    for root in (old, new):
        write_sites(root, job(minimum=2))
    run(old, connected(site_nodes(old, NAMES)))
    replayed = only(old / "west", "west.up")

    def replay(node: str, kind: str, reply: Words) -> Words:
        if node != "13" or kind != UPLOAD:
            return reply
        return {"code": "ok", "name": "west", "payload": replayed}

    found = run(new, connected(site_nodes(new, NAMES), replay))
    assert [each["code"] for each in found["refused"]] == [OtherJobError.code]
    assert [each["name"] for each in found["took_part"]] == ["north", "south"]


@pytest.mark.parametrize("signed", [False, True])
def test_another_node_cannot_be_north(tmp_path: Path, signed: bool) -> None:
    """South's node sends north's own upload, under north's name and under its own."""
    changes: dict[str, Any] = {"minimum": 2}
    if signed:
        tmp_path.mkdir(exist_ok=True)
        changes["keys"] = {
            name: signatures.new_keys(tmp_path / f"{name}.key", tmp_path / f"{name}.pub")
            for name in (*NAMES, "server")
        }
    write_sites(tmp_path, job(**changes))
    nodes = site_nodes(tmp_path, NAMES)
    if signed:
        nodes = {
            number: replace(node, key=tmp_path / f"{node.name}.key")
            for number, node in nodes.items()
        }
    seen: dict[str, bytes] = {}

    def replay(node: str, kind: str, reply: Words) -> Words:
        if kind == UPLOAD and node != "13":
            seen.setdefault("north", reply["payload"])
            if node == "12":
                return {"code": "ok", "name": claims, "payload": seen["north"]}
        return reply

    more = {"key": tmp_path / "server.key"} if signed else {}
    for claims in ["north", "south"] if signed else ["north"]:
        journal = {"journal": tmp_path / f"{claims}.journal"}
        found = run(tmp_path, connected(nodes, replay), **journal, **more)
        assert [each["code"] for each in found["refused"]] == [ParticipantError.code]
        assert [each["name"] for each in found["took_part"]] == ["north", "west"]


def test_the_operator_may_fix_who_is_who(tmp_path: Path) -> None:
    """West is not invited; a node whose number is north's says it is south."""
    write_sites(tmp_path, job(minimum=1))
    nodes = connected(site_nodes(tmp_path, NAMES))
    found = run(tmp_path, nodes, nodes={"north": "11", "south": "99", "other": "12"})
    assert [each["name"] for each in found["took_part"]] == ["north"]
    assert {node for node, _ in nodes.sent} == {"11", "12"}
    assert [each["code"] for each in found["refused"]] == [ParticipantError.code]


def test_a_second_upload_is_refused_and_the_first_counts(tmp_path: Path) -> None:
    made = job(minimum=2)
    write_sites(tmp_path, made)
    nodes = site_nodes(tmp_path, NAMES)
    assert not run(tmp_path, connected({"11": nodes["11"]}))[
        "merged"
    ]  # of three, only north is there
    first = only(tmp_path / "server", "north.up")
    other = steps.fit(clients(3)[1], made.federation)[1]
    (tmp_path / "server/job.journal/nodes/north.json").unlink()  # so that it is asked again

    def change(node: str, kind: str, reply: Words) -> Words:
        if node != "11" or kind != UPLOAD:
            return reply
        return {"code": "ok", "name": "north", "payload": other}

    found = run(tmp_path, connected(nodes, change))
    assert found["undelivered"] == ["north"]  # nobody knows where to send its return
    assert [each["code"] for each in found["refused"]] == ["second-upload"]
    assert only(tmp_path / "server", "north.up") == first


def silent(node: str, kind: str, reply: Words) -> Words | None:
    return None if node == "13" else reply


def test_without_a_node_the_job_ends_by_its_minimum(tmp_path: Path, clock: Clock) -> None:
    write_sites(tmp_path, job(minimum=2))
    found = run(tmp_path, connected(site_nodes(tmp_path, NAMES), silent), deadline=1000.0)
    assert 1000 <= clock.now < 1001
    assert found["missing"] == ["west"]
    assert [each["name"] for each in found["took_part"]] == ["north", "south"]
    assert ("13", "no-answer") in [(each["node"], each["code"]) for each in found["contacts"]]


def test_answers_that_are_here_at_the_deadline_count(tmp_path: Path, clock: Clock) -> None:
    """The server was busy when they came: it has not looked for them since."""

    class Busy(InMemory):
        def replies(self, tickets: Collection[str]) -> list[Reply]:
            if clock.now < 1000:
                clock.sleep(1000)
                return []
            return super().replies(tickets)

    write_sites(tmp_path, job())
    nodes = Busy(connected(site_nodes(tmp_path, NAMES)).handlers)
    assert run(tmp_path, nodes, deadline=1000.0)["finished"]


def test_a_job_without_a_list_takes_all_who_are_connected(tmp_path: Path, clock: Clock) -> None:
    write_sites(tmp_path, job(participants=(), minimum=2))
    found = run(tmp_path, connected(site_nodes(tmp_path, NAMES)))
    assert clock.now < 10  # it does not wait for the deadline
    assert [each["name"] for each in found["took_part"]] == list(NAMES)


def test_too_few_uploads_fail_and_a_new_run_goes_on(tmp_path: Path) -> None:
    write_sites(tmp_path, job(minimum=3))
    nodes = site_nodes(tmp_path, NAMES)
    assert "2 of at least 3" in run(tmp_path, connected(nodes, silent))["waiting"]
    assert not files(tmp_path, "*.down")
    again = connected(nodes)
    assert run(tmp_path, again)["finished"]
    assert [node for node, kind in again.sent if kind == UPLOAD] == ["13"]


def test_killed_between_the_exchanges_a_new_run_sends_the_same_returns(tmp_path: Path) -> None:
    write_sites(tmp_path, job())
    nodes = site_nodes(tmp_path, NAMES)

    class Killed(BaseException):
        pass

    def kill(node: str, kind: str, reply: Words) -> Words:
        if kind == RETURN:
            raise Killed
        return reply

    with pytest.raises(Killed):
        run(tmp_path, connected(nodes, kill))
    before = files(tmp_path / "server", "*.down")
    assert len(before) == 3
    for _ in range(2):  # finished ones get the same bytes once more, and apply them once
        again = connected(nodes)
        assert run(tmp_path, again)["finished"]
        assert {kind for _, kind in again.sent} == {RETURN}
        assert files(tmp_path / "server", "*.down") == before
        for name in NAMES:
            assert only(tmp_path / name, "*.down") == only(tmp_path / "server", f"{name}.down")


def test_a_lost_answer_is_asked_for_again(tmp_path: Path) -> None:
    write_sites(tmp_path, job())
    lost = Counter[str]()

    def lose(node: str, kind: str, reply: Words) -> Words:
        if node == "12" and not lost[node]:
            lost[node] += 1
            raise LostError("gone")
        return reply

    found = run(tmp_path, connected(site_nodes(tmp_path, NAMES), lose))
    assert found["finished"]
    south = [each["code"] for each in found["contacts"] if each["node"] == "12"]
    assert south == ["gone", "ok", "ok"]


def test_a_node_whose_mistake_is_mended_takes_part_in_the_same_run(
    tmp_path: Path, clock: Clock
) -> None:
    """West has another job file. It is asked again, less and less often, until it has the right one."""
    made = job()
    write_sites(tmp_path, made)
    west = tmp_path / "west" / "job.pace"
    right = west.read_bytes()
    west.unlink()

    def mend(node: str, kind: str, reply: Words) -> Words:
        if clock.now > 100:
            west.write_bytes(right)
        return reply

    found = run(tmp_path, connected(site_nodes(tmp_path, NAMES), mend), deadline=1000.0)
    codes = [each["code"] for each in found["contacts"] if each["node"] == "13"]
    assert codes == ["file"] * 4 + ["ok", "ok"]
    assert found["finished"]
    assert MENDING * 15 <= clock.now < MENDING * 15 + 20  # 15 + 30 + 60 + 120 seconds of rest


def test_a_queue_longer_than_patience_ends(tmp_path: Path, clock: Clock) -> None:
    """One machine plays all nodes, 10 s each, and patience is 15: messages expire in the queue."""

    class Queue(InMemory):
        free = 0.0

        def send(self, kind: str, messages: Any, *, expires: float) -> dict[str, str]:
            for node, words in messages.items():
                self.free = max(self.free, clock.now) + 10
                late = self.free > clock.now + expires
                ticket = f"{len(self.sent)}"
                self.sent.append((node, kind))
                due[ticket] = min(self.free, clock.now + expires)
                reply = {} if late else self.handlers[node](kind, words)
                self.waiting[ticket] = Reply(ticket, reply or {}, "expired" if late else "")
            return {str(len(self.sent) - len(messages) + i): n for i, n in enumerate(messages)}

        def replies(self, tickets: Collection[str]) -> list[Reply]:
            return super().replies([each for each in tickets if due[each] <= clock.now])

    due: dict[str, float] = {}
    write_sites(tmp_path, job())
    nodes = Queue(connected(site_nodes(tmp_path, NAMES)).handlers)
    assert run(tmp_path, nodes, patience=15.0, deadline=1000.0)["finished"]


@pytest.mark.parametrize("patience", [30.0, 1e9])
def test_a_node_that_is_late_by_a_message_is_asked_again_in_time(
    tmp_path: Path, clock: Clock, patience: float
) -> None:
    """As a SuperNode of Flower's is that a run left with a reply to send."""

    class Late(InMemory):
        newest = ""

        def send(self, kind: str, messages: Any, *, expires: float) -> dict[str, str]:
            tickets = super().send(kind, messages, expires=expires)
            for ticket, node in tickets.items():
                self.newest = ticket if node == "13" else self.newest
            return tickets

        def replies(self, tickets: Collection[str]) -> list[Reply]:
            return super().replies([ticket for ticket in tickets if ticket != self.newest])

    write_sites(tmp_path, job())
    engine = Late(connected(site_nodes(tmp_path, NAMES)).handlers)
    engine.patience = patience  # type: ignore[attr-defined]
    found = run(tmp_path, engine, deadline=200.0, delivery=200.0)
    assert found["finished"] == (patience == 30.0)
    assert clock.now < 200 or patience > 200


def signed_job(root: Path) -> dict[str, Any]:
    """Changes of a job that make it signed; the keys are in `root`."""
    pairs = {name: (root / f"{name}.key", root / f"{name}.pub") for name in (*NAMES, "server")}
    return {"keys": {name: signatures.new_keys(*pair) for name, pair in pairs.items()}}


@pytest.mark.parametrize("signed", [True, False])
def test_returns_reach_sites_whose_nodes_have_other_numbers_than_before(
    tmp_path: Path, signed: bool
) -> None:
    """As after a SuperLink lost its database with a job open. With keys nobody has to do anything."""
    write_sites(tmp_path, job(**(signed_job(tmp_path) if signed else {})))
    more: dict[str, Any] = {"key": tmp_path / "server.key"} if signed else {}
    nodes = {
        number: replace(node, key=tmp_path / f"{node.name}.key" if signed else None)
        for number, node in site_nodes(tmp_path, NAMES).items()
    }

    def lose(node: str, kind: str, reply: Words) -> Words | None:
        return None if kind == RETURN else reply

    first = run(tmp_path, connected(nodes, lose), delivery=5.0, **more)
    assert first["undelivered"] == list(NAMES)
    before = files(tmp_path / "server", "*.down")
    anew = connected({f"2{number}": node for number, node in nodes.items()})
    second = run(tmp_path, anew, delivery=100.0, **more)
    fixed = {"north": "211", "south": "212", "west": "213"}
    if not signed:
        assert second["undelivered"] == list(NAMES)
        assert second["moved"] == fixed
        report = RoundReport(**{**second, "bytes": MessageSizes(**second["bytes"])})
        line = "--nodes north=211,south=212,west=213"
        assert any(line in sentence for sentence in round_sentences(report))
        second = run(tmp_path, anew, nodes=fixed, **more)
    assert second["finished"]
    assert second["moved"] == {}
    assert {row["who"]: row["state"] for row in second["participants"]} == dict.fromkeys(
        NAMES, "adopted"
    )
    assert files(tmp_path / "server", "*.down") == before
    for name in NAMES:
        assert only(tmp_path / name, "*.down") == only(tmp_path / "server", f"{name}.down")


def test_while_its_node_is_connected_no_other_takes_a_signed_name(tmp_path: Path) -> None:
    """South's operator has a copy of north's key and upload; north is there, and stays north."""
    write_sites(tmp_path, job(minimum=2, **signed_job(tmp_path)))
    nodes = {
        number: replace(node, key=tmp_path / f"{node.name}.key")
        for number, node in site_nodes(tmp_path, NAMES).items()
    }
    seen: dict[str, bytes] = {}

    def replay(node: str, kind: str, reply: Words) -> Words:
        if kind == UPLOAD and node == "11":
            seen["north"] = reply["payload"]
        if kind == UPLOAD and node == "12":
            return {"code": "ok", "name": "north", "payload": seen["north"]}
        return reply

    found = run(tmp_path, connected(nodes, replay), key=tmp_path / "server.key")
    assert found["finished"]
    assert {row["who"]: row["node"] for row in found["participants"]}["north"] == "11"


def test_a_lost_engine_leaves_a_report_of_what_came(tmp_path: Path) -> None:
    """The refusals of this run are in it, and who was here is not shown as asked."""

    class Gone(InMemory):
        looks = 0

        def replies(self, tickets: Collection[str]) -> list[Reply]:
            self.looks += 1
            if self.looks > 3:
                raise EngineError("the SuperLink was lost")
            return super().replies(tickets)

    def refuse(node: str, kind: str, reply: Words) -> Words:
        return {"code": "graph"} if node == "13" else reply

    write_sites(tmp_path, job())
    nodes = Gone(connected(site_nodes(tmp_path, NAMES), refuse).handlers)
    report = run_round(nodes, server_settings(tmp_path))
    assert (report.finished, report.lost) == (False, "the SuperLink was lost")
    assert {row.who: (row.state, row.code) for row in report.participants} == {
        "north": ("uploaded", ""),
        "south": ("uploaded", ""),
        "node 13": ("asked", "graph"),  # again, and why
        "west": ("missing", ""),
    }
    assert "graph" in (tmp_path / "server/job.report/report.md").read_text()
    again = run(tmp_path, connected(site_nodes(tmp_path, NAMES)))
    assert again["finished"]


def test_who_was_journaled_before_is_shown_so_in_the_next_run(tmp_path: Path) -> None:
    write_sites(tmp_path, job())
    nodes = site_nodes(tmp_path, NAMES)
    run(tmp_path, connected({"11": nodes["11"]}))
    found = run(tmp_path, connected({"12": nodes["12"]}))
    states = {row["who"]: row["state"] for row in found["participants"]}
    assert states == {"north": "uploaded", "south": "uploaded", "west": "missing"}
