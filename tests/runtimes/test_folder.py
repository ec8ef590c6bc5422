"""The shared folder as an engine: from cron on both sides, on file systems that promise little."""

from __future__ import annotations

import os
import shlex
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pace.io import atomic
from pace.jobs import SERVER, Job, read_job, write_job
from pace.jobs.journal import Journal
from pace.protocol import steps
from pace_network import folder, site_steps
from pace_network.exchange import answer_letters, encode_words
from pace_network.folder import SharedFolder
from pace_network.round import play_round
from tests.blocks import ROOT, blocks
from tests.engines import folder_node
from tests.graphs import clients
from tests.networked import Clock, files, only, server_settings
from tests.preloaded import Preloaded
from tests.sealed import key_of, write_key
from tests.sites import NAMES, job, write_graph, write_sites

PAGE = ROOT / "docs" / "operator.md"
HERE = str(Path(__file__).relative_to(ROOT))
NODE = 'name = "{name}"\nshare = "../share"\nkey = "{name}.key"\nlimit = 600.0\n'


def signed_sites(root: Path) -> Job:
    """Three sites with keys and a node.toml, and a server."""
    from pace.jobs import signatures

    keys = {name: signatures.public_key(key_of(name)) for name in (*NAMES, SERVER)}
    made = job(participants=NAMES, minimum=3, keys=keys)
    for name, graph in zip((*NAMES, SERVER), (*clients(3), None), strict=True):
        (root / name).mkdir()
        write_job(root / name / "job.pace", made)
        write_key(root / name, name)
        (root / name / "node.toml").write_text(NODE.format(name=name))
        if graph is not None:
            write_graph(root / name / "mine.graph", graph)
    (root / "share").mkdir()
    return made


def test_a_signed_round_from_cron_alone(pace: Preloaded, tmp_path: Path) -> None:
    """Server and sites take turns and are never there together; each is a new process.

    The commands are those of the operator's page.
    """
    made = signed_sites(tmp_path)
    (block,) = (block for block in blocks(PAGE) if block.mark("run by") == HERE)
    server, _, site = (shlex.split(line, comments=True) for line in block.text.splitlines())
    assert server.pop(4) == "/mnt/share"
    run = (*server[1:], "../share", "--deadline", "1", "--delivery", "1", "--json")
    look = (*site[1:], "--json")

    def sites(*, answered: int) -> None:
        for name in NAMES:
            done = pace(*look, cwd=tmp_path / name)
            assert (done.code, done.json["answered"]) == (0, answered), done.err

    sites(answered=0)  # nobody has asked
    first = pace(*run, cwd=tmp_path / SERVER)
    assert first.code == 1
    assert "0 of at least 3" in first.json["waiting"]
    sites(answered=1)
    sites(answered=0)  # what was answered is not answered again
    second = pace(*run, cwd=tmp_path / SERVER)
    assert second.code == 1
    assert second.json["undelivered"] == list(NAMES)
    assert {row["state"] for row in second.json["participants"]} == {"lost"}
    sites(answered=1)
    third = pace(*run, cwd=tmp_path / SERVER)
    assert third.code == 0
    assert third.json["finished"]
    fitted = [steps.fit(graph, made.federation)[1] for graph in clients(3)]
    for name, returned in zip(NAMES, steps.merge(fitted, made.federation), strict=True):
        assert only(tmp_path / name, f"{name}.down").startswith(returned)  # the signature follows
    page = (tmp_path / SERVER / "job.report/status.html").read_text()
    assert "The round has ended" in page
    assert "refresh" not in page
    report = (tmp_path / SERVER / "job.report/report.md").read_text()
    assert "Participants of this run" in report


def test_a_site_says_everything_that_is_missing(pace: Preloaded, tmp_path: Path) -> None:
    signed_sites(tmp_path)
    north = tmp_path / "north"
    check = ("folder", "node", "node.toml", "--check", "--json")
    assert pace(*check, cwd=north).json["problems"] == []
    for gone in ("north.key", "mine.graph"):
        (north / gone).unlink()
    (tmp_path / "share").rename(tmp_path / "elsewhere")
    done = pace(*check, cwd=north)
    assert done.code == 1
    for problem, says in zip(done.json["problems"], ("key", "mine.graph", "share"), strict=True):
        assert says in problem


def run(root: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, names: Any = NAMES) -> Any:
    """The round, while these sites look into their folders."""
    nodes = [folder_node(root, name) for name in names]

    def sleep(seconds: float) -> None:
        clock.now += seconds
        for node in nodes:
            answer_letters(node, partial(site_steps.answer_message, node), once=True)

    monkeypatch.setattr(clock, "sleep", sleep, raising=False)
    settings = server_settings(root, deadline=100.0, delivery=100.0, patience=20.0)
    book = Journal.open(settings.journal, read_job(settings.job))
    return play_round(SharedFolder(root / "share"), settings, book)


def shared(root: Path, **changes: object) -> None:
    write_sites(root, job(**changes))
    for name in NAMES:
        (root / "share" / name).mkdir(parents=True)


def test_without_renames_and_durable_folders_it_works_all_the_same(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, content: bytes, **more: Any) -> None:
        if "share" in path.parts:
            raise OSError(95, "Operation not supported")
        original(path, content, **more)

    original = atomic.write
    monkeypatch.setattr(folder.atomic, "write", refused)
    shared(tmp_path)
    assert run(tmp_path, clock, monkeypatch).finished


def test_a_message_that_is_half_there_is_waited_for(tmp_path: Path) -> None:
    """As a synchronised folder shows it, a part at a time."""
    shared(tmp_path)
    north, server = folder_node(tmp_path, "north"), SharedFolder(tmp_path / "share")
    words = {"job": "0" * 64, "payload": b"p" * 5000, "roll": b"r" * 70}
    whole = encode_words("return", words, "ticket")  # type: ignore[arg-type]
    for size in (0, 10, 200, 4096, len(whole) - 1):
        (north.mine / "ask").write_bytes(whole[:size])
        assert list(north.letters()) == []
    (north.mine / "ask").write_bytes(whole)
    (letter,) = north.letters()
    assert letter == ("return", words, "ticket")

    (ticket,) = server.send("upload", {"north": {"job": "0" * 64}}, expires=5)
    answer = encode_words("reply", {"code": "ok", "payload": b"x" * 9000}, ticket)
    for size in (10, 4096, len(answer) - 1):
        (north.mine / "answer").write_bytes(answer[:size])
        assert list(server.replies([ticket])) == []
    (north.mine / "answer").write_bytes(answer)
    (reply,) = server.replies([ticket])
    assert (reply.ticket, reply.words["payload"]) == (ticket, b"x" * 9000)
    assert list(server.replies([ticket])) == []  # once


def test_one_hostile_folder_stops_nobody_else(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared(tmp_path, minimum=2)
    secret, west = tmp_path / "secret", tmp_path / "share/west"
    secret.write_bytes(b"the server's own")
    (west / "ask").symlink_to(secret)
    os.mkfifo(west / "answer")
    (tmp_path / "share/file").write_bytes(b"")
    (tmp_path / "share/link").symlink_to(tmp_path / "server", target_is_directory=True)
    report = run(tmp_path, clock, monkeypatch, NAMES[:2])
    assert report.finished
    assert report.missing == ("west",)
    assert secret.read_bytes() == b"the server's own"
    assert not (tmp_path / "server/ask").exists()


def test_an_answer_in_anothers_folder_is_not_taken(tmp_path: Path) -> None:
    """West copies what north answered, and answers what nobody asked."""
    shared(tmp_path)
    server = SharedFolder(tmp_path / "share")
    tickets = server.send("upload", {"north": {}, "west": {}}, expires=5)
    north, west = sorted(tickets, key=tickets.__getitem__)
    stolen = encode_words("reply", {"code": "ok", "name": "north"}, north)
    for content in (stolen, encode_words("reply", {"code": "ok"}, "unheard"), b"\0" * 100):
        (tmp_path / "share/west/answer").write_bytes(content)
        assert list(server.replies([north, west])) == []


def test_a_share_that_goes_away_is_shown_and_waited_for(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared(tmp_path)
    share, away = tmp_path / "share", tmp_path / "away"
    share.rename(away)
    nodes = [folder_node(tmp_path, name) for name in NAMES]

    def sleep(seconds: float) -> None:
        clock.now += seconds
        if clock.now > 30 and away.exists():
            shutil.move(away, share)
        for node in nodes if share.exists() else ():
            answer_letters(node, partial(site_steps.answer_message, node), once=True)

    monkeypatch.setattr(clock, "sleep", sleep, raising=False)
    settings = server_settings(tmp_path, deadline=300.0)
    book = Journal.open(settings.journal, read_job(settings.job))
    events: list[Any] = []
    assert play_round(SharedFolder(share), settings, book, events.append).finished
    told = [(event.state, event.name) for event in events]
    assert told.count(("failing", "the engine")) == told.count(("working", "the engine")) == 1
    assert any("No such file" in event.code for event in events)
    with pytest.raises(OSError, match="No such file"):  # from cron, a site says so
        answer_letters(folder_node(tmp_path / "x", "y"), lambda kind, words: {}, once=True)


def test_two_processes_are_not_the_node_of_one_folder(pace: Preloaded, tmp_path: Path) -> None:
    """A cron that comes again while the site still trains."""
    signed_sites(tmp_path)
    north = tmp_path / "north"
    (north / "state").mkdir()
    with atomic.held(north / "state/.lock", "busy"):
        done = pace("folder", "node", "node.toml", "--once", cwd=north)
    assert done.code == 2
    assert "another process is the node" in done.err


def test_files_at_both_sides(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    shared(tmp_path)
    assert run(tmp_path, clock, monkeypatch).finished
    assert sorted(files(tmp_path / "share", "*")) == [
        f"{name}/{file}" for name in NAMES for file in ("answer", "ask")
    ]
