"""Who is where in a round: what the operator is shown is what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from pace.jobs.job import read_job
from pace.jobs.journal import Journal
from pace_network import exchange
from pace_network.exchange import UPLOAD, Words
from pace_network.progress import Event, Progress
from pace_network.round import play_round
from tests.networked import Clock, connected, run, server_settings, site_nodes
from tests.sites import NAMES, job, write_sites

pytestmark = pytest.mark.usefixtures("clock")


def refuse_once(refused: set[str]) -> object:
    def tamper(node: str, kind: str, reply: Words) -> Words:
        if node == "12" and kind == UPLOAD and not refused:
            refused.add(node)
            return {"code": "graph"}
        return reply

    return tamper


def test_events_say_what_happened_and_make_the_reports_table(tmp_path: Path) -> None:
    write_sites(tmp_path, job())
    settings = server_settings(tmp_path)
    book = Journal.open(settings.journal, read_job(settings.job))
    events: list[Event] = []
    nodes = connected(site_nodes(tmp_path, NAMES), refuse_once(set()))  # type: ignore[arg-type]
    report = play_round(nodes, settings, book, events.append)
    of_south = [(each.state, each.code) for each in events if each.node == "12"]
    assert of_south == [
        ("asked", ""),
        ("refused", "graph"),
        ("asked", ""),
        ("uploaded", ""),
        ("returned", ""),
        ("adopted", ""),
    ]
    progress = Progress()
    for event in events:
        progress.add(event)
    assert tuple(progress.rows.values()) == report.participants
    rows = {row.who: row for row in report.participants}
    assert set(rows) == set(NAMES)
    assert rows["south"].asked == 2
    upload, returned = report.bytes.upload_frame, report.bytes.return_frame
    assert {(row.upload_bytes, row.return_bytes) for row in rows.values()} == {(upload, returned)}


def test_a_node_has_the_operators_name_until_it_says_its_own() -> None:
    progress = Progress({"12345678901234567890": "north"})
    assert progress.add(Event("asked", "12345678901234567890")).who == "north"
    assert progress.add(Event("asked", "98765432109876500042")).who == "node 00042"
    assert progress.add(Event("uploaded", "98765432109876500042", "south")).who == "south"
    assert len(progress.rows) == 2


def test_whoever_is_listed_and_not_connected_is_shown_as_missing(tmp_path: Path) -> None:
    write_sites(tmp_path, job(minimum=2))
    report = run(tmp_path, connected(site_nodes(tmp_path, NAMES[:2])))
    states = {row["who"]: row["state"] for row in report["participants"]}
    assert states == {"north": "adopted", "south": "adopted", "west": "missing"}


def test_an_impostor_is_not_shown_under_the_name_it_claims(tmp_path: Path) -> None:
    write_sites(tmp_path, job(minimum=2))
    north: list[bytes] = []

    def claim(node: str, kind: str, reply: Words) -> Words:
        if kind == UPLOAD and node == "11":
            north.append(reply["payload"])
        if kind == UPLOAD and node == "12":
            return {"code": "ok", "name": "north", "payload": north[0]}
        return reply

    report = run(tmp_path, connected(site_nodes(tmp_path, NAMES), claim))
    rows = {each["node"]: each for each in report["participants"]}
    assert rows["11"]["who"] == "north"
    assert (rows["12"]["who"], rows["12"]["state"]) == ("node 12", "refused")


def test_limits_follow_from_the_number_of_nodes(tmp_path: Path, clock: Clock) -> None:
    """A return that nobody confirms is waited for longer, the more nodes there are."""

    def silent(node: str, kind: str, reply: Words) -> Words | None:
        return reply if kind == UPLOAD else None

    write_sites(tmp_path, job())
    found = run(tmp_path, connected(site_nodes(tmp_path, NAMES), silent))
    assert found["undelivered"] == list(NAMES)
    assert 330 <= clock.now < 335  # 300 and 10 for each of three
    before = clock.now
    run(tmp_path, connected(site_nodes(tmp_path, NAMES), silent), delivery=40.0)
    assert 40 <= clock.now - before < 45


@pytest.mark.fault(41)
def test_a_nodes_log_does_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    exchange.pass_on("\x1b[92mINFO\x1b[0m : \x1b]0;owned\x07 by \u202e\nnext\udcff")
    exchange.log("a\x1b[2Jb")
    assert exchange.code_of(RuntimeError("\x1b[2J")) == exchange.FAILED
    said = capsys.readouterr().err
    assert said.startswith("INFO : \\x1b]0;owned\\x07 by \\u202e\nnext\\xff\n")
    assert all(letter.isprintable() or letter == "\n" for letter in said)
