"""Editions over a network: a node's folder of jobs, and a server that is killed at every step."""

from __future__ import annotations

import copy
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pace.jobs import Job, signatures, write_job
from pace.runtimes.files import Changes, read_model
from pace.runtimes.files.client import withdraw_files
from pace_network import site_steps
from pace_network.exchange import OK, Exchange, Words
from pace_network.node import Node
from pace_network.round import RoundReport, Settings, begin_edition, run_round
from pace_network.site_steps import answer_message
from tests.networked import connected, files, run, server_settings, site_nodes, stopped
from tests.preloaded import KILLED, kill_at
from tests.sites import NAMES, job, write_sites

FIRST = NAMES[:2]


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Path, Job, dict[str, Node]]:
    """North and south are in the job; west has a node and no place in it."""
    keys = {
        name: signatures.new_keys(tmp_path / f"{name}.key", tmp_path / f"{name}.pub")
        for name in (*NAMES, "server")
    }
    first = {name: keys[name] for name in (*FIRST, "server")}
    made = job(participants=FIRST, minimum=2, keys=first)
    write_sites(tmp_path, made)
    nodes = {}
    for number, node in site_nodes(tmp_path, NAMES, editions=True).items():
        folder = tmp_path / node.name / "jobs"
        folder.mkdir()
        nodes[number] = replace(node, key=tmp_path / f"{node.name}.key", jobs=folder)
    return tmp_path, made, nodes


def times(root: Path) -> dict[str, object]:
    return {"key": root / "server.key", "deadline": 1.0, "delivery": 1.0}


def begin(root: Path, changes: Changes) -> Path:
    settings: Settings = server_settings(root, key=root / "server.key")
    record = begin_edition(settings, changes)
    assert record is not None
    return record


def add(root: Path, name: str) -> Changes:
    return Changes({name: signatures.read_public_key(root / f"{name}.pub")})


@pytest.mark.fault(45, 58)
def test_a_site_that_comes_late_lacks_an_edition_and_did_not_tamper(
    signed: tuple[Path, Job, dict[str, Node]],
) -> None:
    root, made, nodes = signed
    assert run(root, connected(nodes), **times(root))["merged"]
    record = begin(root, add(root, "west"))
    west = {"13": nodes["13"]}
    waiting = run(root, connected(west), **times(root))
    assert {one["code"] for one in waiting["contacts"]} == {"other-edition"}
    problems = west["13"].problems()
    assert any("put its .edition file into" in problem for problem in problems)
    shutil.copy(record, root / "west" / "jobs")
    assert west["13"].problems() == []
    report = run(root, connected(nodes), **times(root))
    assert (report["finished"], report["edition"]) == (True, 2)
    assert {one["name"] for one in report["contacts"] if one["step"] == "upload"} == {"west"}
    damaged = bytearray(record.read_bytes())
    damaged[-1] ^= 1
    (root / "west" / "jobs" / record.name).write_bytes(damaged)
    reply = answer_message(west["13"], "upload", {"job": made.digest})
    assert reply["code"] == "signature"


@pytest.mark.fault(44)
def test_a_node_that_has_a_withdrawal_adopts_nothing_that_ignores_it(
    signed: tuple[Path, Job, dict[str, Node]],
) -> None:
    root, made, nodes = signed
    run(root, connected(nodes), **times(root))
    south, record = root / "south", begin(root, add(root, "west"))
    kept = south / "state" / made.digest[:16] / "local"
    withdraw_files(made, kept, root / "north/jobs/south.withdrawal", key=root / "south.key")
    shutil.copy(record, root / "west" / "jobs")
    report = run(root, connected(nodes), **times(root))
    assert report["undelivered"] == ["north"]
    codes = {one["name"]: one["code"] for one in report["contacts"] if one["step"] == "return"}
    assert codes == {"north": "withdrawn", "south": OK, "west": OK}
    model = root / "north" / "state" / made.digest[:16] / "model"
    assert read_model(model).outcome.edition == 1
    begin(root, Changes(withdrawn=[root / "north/jobs/south.withdrawal"]))
    report = run(root, connected(nodes), **times(root))
    assert (report["finished"], report["edition"]) == (True, 3)
    assert read_model(model).outcome.edition == 3
    assert not {one["node"] for one in report["contacts"]} & {"12"}, "the leaver is not asked"


@pytest.mark.fault(58)
def test_a_node_takes_part_in_jobs_that_its_person_put_there_and_in_no_other(
    signed: tuple[Path, Job, dict[str, Node]],
) -> None:
    _, made, nodes = signed
    more, other = job(participants=NAMES, minimum=2), job(participants=NAMES)
    north = nodes["11"]
    write_job(north.jobs / "more.pace", more)
    (north.jobs / "broken.pace").write_text("no job")
    digests = {one.digest: one for one in (made, more, other)}
    codes = {digest: answer_message(north, "upload", {"job": digest})["code"] for digest in digests}
    assert codes == {made.digest: OK, more.digest: OK, other.digest: "other-job"}
    assert any("broken.pace" in problem for problem in north.problems())


ALL = ("east", "north", "south", "west", "zenith")


class Five:
    """Five sites of a job of four: an edition is on, south has withdrawn and zenith comes late."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "keys").mkdir(parents=True)
        pairs = {name: (self.key(name), self.key(name, "pub")) for name in (*ALL, "server")}
        self.publics = {name: signatures.new_keys(*pair) for name, pair in pairs.items()}
        first = {name: self.publics[name] for name in (*ALL[:4], "server")}
        self.job = job(participants=ALL[:4], minimum=4, keys=first)
        write_sites(root, self.job, ALL)
        for name in ALL:
            (root / name / "jobs").mkdir()

    def key(self, name: str, suffix: str = "key") -> Path:
        return self.root / "keys" / f"{name}.{suffix}"

    def exchange(self, engine: str) -> Exchange:
        nodes = {
            number: replace(node, key=self.key(node.name), jobs=self.root / node.name / "jobs")
            for number, node in site_nodes(self.root, ALL, editions=True).items()
        }
        if engine == "memory":
            return connected(nodes)
        from pace_network.flower.server import GridExchange
        from tests.flowered import HomeGrid

        return GridExchange(HomeGrid(nodes))

    def changed(self, engine: str) -> RoundReport:
        """What `pace flower run --add … --withdrawal …` does, with what zenith's person does."""
        late = Changes({"zenith": self.publics["zenith"]}, [self.root / "south.withdrawal"])
        settings = server_settings(self.root, **times(self.root / "keys"))
        record = begin_edition(settings, late)
        assert record is not None
        shutil.copy(record, self.root / "zenith" / "jobs")
        return run_round(self.exchange(engine), settings)

    def kept(self) -> dict[str, bytes]:
        """What must be the same however often the server died: the journal, and what everybody got."""
        found = files(self.root / "server" / "job.journal", "*")
        found |= files(self.root / "server" / "job.report" / "edition-2", "*")
        for path in self.root.glob(f"*/state/{self.job.digest[:16]}/edition-2/*.down"):
            found[path.name] = path.read_bytes()
        return {path: content for path, content in found.items() if "/." not in f"/{path}"}


def brief_site(node: Node, kind: str, words: Words) -> Words:
    """A site that has trained and takes what comes, so that only the server's steps take time."""
    place = node.folder / words["job"][:16] / "edition-2"
    if kind == "upload":
        return {"code": OK, "name": node.name, "payload": (place / f"{node.name}.up").read_bytes()}
    place.mkdir(exist_ok=True)
    (place / f"{node.name}.down").write_bytes(words["payload"])
    return {}


EVERY = pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])


@pytest.mark.fault(46)
@EVERY
def test_an_edition_whose_server_is_killed_at_any_step_ends_in_the_same_bytes(
    every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at_any_step("memory", every, tmp_path, monkeypatch)


@EVERY
def test_an_edition_on_flower_is_killed_at_any_step_and_ends_in_the_same_bytes(
    every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("flwr", reason="needs pace-network[flower]: run `make test-flower`")
    killed_at_any_step("flower", every, tmp_path, monkeypatch)


def killed_at_any_step(
    engine: str, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(monkeypatch)
    start = Five(tmp_path / "start")
    settings = server_settings(start.root, **times(start.root / "keys"))
    assert run_round(start.exchange(engine), settings).finished
    mine = Path("state") / start.job.digest[:16]
    south, withdrawal = start.root / "south" / mine, start.root / "south.withdrawal"
    withdraw_files(start.job, south / "local", withdrawal, key=start.key("south"))

    def copied(name: str) -> Five:
        work = copy.copy(start)
        work.root = tmp_path / name
        shutil.copytree(start.root, work.root)
        return work

    whole = copied("whole")
    assert whole.changed(engine).finished
    expected, late = whole.kept(), mine / "edition-2" / "zenith.up"
    assert {f"{name}.down" for name in ALL if name != "south"} <= expected.keys()
    (start.root / "zenith" / late).parent.mkdir(parents=True)
    shutil.copy(whole.root / "zenith" / late, start.root / "zenith" / late)
    monkeypatch.setattr(site_steps, "answer_message", brief_site)
    for step in range(1, 1000, every):
        work = copied(f"killed-{step}")
        if (child := os.fork()) == 0:
            kill_at(step)
            os._exit(int(not work.changed(engine).finished))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            break
        assert code == KILLED
        assert work.changed(engine).finished
        assert work.kept() == expected, f"after step {step}"
        shutil.rmtree(work.root)
    assert step > 60
