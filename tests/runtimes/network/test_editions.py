"""A node's folder of jobs: more jobs, editions and withdrawals that the site's own person put there."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pace.jobs import Job, signatures, write_job
from pace.runtimes.files import Changes, read_model
from pace.runtimes.files.client import withdraw_files
from pace_network.exchange import OK
from pace_network.node import Node
from pace_network.round import Settings, begin_edition
from pace_network.site_steps import answer_message
from tests.networked import connected, run, server_settings, site_nodes
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
