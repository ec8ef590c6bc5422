"""A node's settings, steps and watchdog; which node is which participant; the server's settings."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pace.errors import FileError, OtherJobError, ParticipantError, SettingError
from pace.protocol import steps
from pace.runtimes.files import model
from pace.runtimes.network import codes, site_steps, watchdog
from pace.runtimes.network.bindings import Bindings, parse
from pace.runtimes.network.node import Node
from pace.runtimes.network.settings import Settings
from pace.runtimes.network.watchdog import Station
from pace.runtimes.network.worker import PLACE
from tests.deployment import LONG, alive, kill, wait
from tests.graphs import clients
from tests.sites import job, roll, write_sites


def config(root: Path, name: str = "north", **more: Any) -> dict[str, Any]:
    site = root / name
    (site / "state").mkdir(exist_ok=True)
    paths = {"job": "job.pace", "graph": "mine.graph", "folder": "state"}
    return {"name": name, **{key: str(site / path) for key, path in paths.items()}, **more}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"graph": ""}, "graph"),
        ({"epochs": 5}, "epochs"),
        ({"limit": 0}, "limit"),
        ({"device": "gpu"}, "device is 'gpu', expected cpu or cuda"),
    ],
)
def test_a_node_is_set_up_completely_or_not_at_all(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    write_sites(tmp_path, job())
    assert Node.of(config(tmp_path, limit=5)).limit == 5
    with pytest.raises(SettingError, match=says):
        Node.of(config(tmp_path, **change))


def test_a_node_trains_once_and_sends_the_same_bytes_again(tmp_path: Path) -> None:
    made = job()
    write_sites(tmp_path, made)
    node = Node.of(config(tmp_path))
    sent = site_steps.upload(node, made.digest)
    kept = (sent.parent / "local").stat().st_mtime_ns
    first = sent.read_bytes()
    sent.unlink()  # lost on the way to the disk
    assert site_steps.upload(node, made.digest).read_bytes() == first
    assert (sent.parent / "local").stat().st_mtime_ns == kept
    (returned,) = steps.merge([first], made.federation)
    called = roll(made, "north", first, returned)
    folder = site_steps.adopt(node, made.digest, returned, called)
    adopted = model.read_model(folder).outcome.adopted
    assert site_steps.adopt(node, made.digest, returned, called) == folder
    assert model.read_model(folder).outcome.adopted == adopted
    assert sorted(path.name for path in sent.parent.iterdir()) == [
        "local",
        "model",
        "north.down",
        "north.roll",
        "north.up",
        "receipt.json",
    ]


def test_two_jobs_of_one_node_share_no_file(tmp_path: Path) -> None:
    for root in (tmp_path / "a", tmp_path / "b"):
        made = job()
        write_sites(root, made)
        node = Node.of(config(root) | {"folder": str(tmp_path)})
        assert site_steps.upload(node, made.digest).parent == tmp_path / made.digest[:16]


def test_a_node_with_the_key_of_another_is_refused(tmp_path: Path) -> None:
    from pace.jobs import signatures

    made = job(
        keys={
            name: signatures.new_keys(tmp_path / f"{name}.key", tmp_path / f"{name}.pub")
            for name in ("north", "south", "west", "server")
        }
    )
    write_sites(tmp_path, made)
    node = Node.of(config(tmp_path, key=str(tmp_path / "south.key")))
    with pytest.raises(ParticipantError, match="south"):
        site_steps.upload(node, made.digest)


@pytest.fixture
def station(tmp_path: Path) -> Iterator[Station]:
    """A worker whose owner is a process of ours, which ends with the test, and the worker with it."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as owner:
        (tmp_path / "station").mkdir()
        yield Station(tmp_path / "station", owner.pid)
        worker = pid_of(tmp_path / "station")
        assert owner.stdin is not None
        owner.stdin.close()
    wait(lambda: worker is None or not alive(worker), LONG)


def pid_of(folder: Path) -> int | None:
    path = folder / PLACE
    return json.loads(path.read_bytes())["pid"] if path.exists() else None


def test_both_steps_and_a_refusal_come_from_one_worker(tmp_path: Path, station: Station) -> None:
    """Real processes: an upload, a return, and a job nobody agreed on; torch is loaded once."""
    made = job()
    write_sites(tmp_path, made)
    told = config(tmp_path, limit=LONG)
    done = watchdog.run(told, "upload", made.digest, station=station)
    assert done["code"] == "ok"
    worker = pid_of(station.folder)
    upload = Path(done["made"]).read_bytes()
    assert upload == steps.fit(clients(3)[0], made.federation)[1]
    (returned,) = steps.merge([upload], made.federation)
    called = roll(made, "north", upload, returned)
    done = watchdog.run(told, "return", made.digest, returned, called, station=station)
    assert done["code"] == "ok"
    assert 0 <= model.read_model(Path(done["made"])).alpha <= 1
    refused = watchdog.run(told, "upload", job().digest, station=station)
    assert refused == {"code": OtherJobError.code}
    assert pid_of(station.folder) == worker


def test_a_step_that_takes_too_long_is_ended_and_the_worker_goes_on(
    tmp_path: Path, station: Station
) -> None:
    endless = job(epochs=10**9)
    write_sites(tmp_path, endless)
    told = config(tmp_path, limit=1.0)
    done = watchdog.run(told, "upload", endless.digest, station=station)
    assert done == {"code": codes.TOO_SLOW}
    worker = pid_of(station.folder)
    told = config(tmp_path, limit=LONG)
    assert watchdog.run(told, "upload", "0" * 64, station=station)["code"] == OtherJobError.code
    assert pid_of(station.folder) == worker


def test_a_worker_that_was_killed_is_started_again(tmp_path: Path, station: Station) -> None:
    write_sites(tmp_path, job())
    told = config(tmp_path, limit=LONG)
    station.start()
    first = pid_of(station.folder)
    assert first is not None
    kill({first})
    wait(lambda: not alive(first), LONG)
    assert watchdog.run(told, "upload", "0" * 64, station=station)["code"] == OtherJobError.code
    assert pid_of(station.folder) != first


def test_a_worker_that_cannot_start_is_a_failure_without_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sites(tmp_path, job())
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    for returned in (b"", bytes(2**20)):
        done = watchdog.run(config(tmp_path), "return", "0" * 64, returned)
        assert done == {"code": codes.FAILED}


def test_a_step_ends_with_whoever_asked(tmp_path: Path, station: Station) -> None:
    """The ClientApp is killed while its step waits: the step ends, the worker goes on."""
    endless = job(epochs=10**9)
    write_sites(tmp_path, endless)
    told = config(tmp_path, limit=LONG)
    with station.call() as caller, caller.makefile("rb") as stream:
        sizes = {"return": 0, "roll": 0}
        words = {"node": told, "step": "upload", "job": endless.digest, "bytes": sizes}
        caller.sendall(json.dumps(words).encode() + b"\n")
        child = int(stream.readline())
        assert alive(child)
    wait(lambda: not alive(child), LONG)
    worker = pid_of(station.folder)
    assert worker is not None
    assert alive(worker)


def test_a_name_belongs_to_one_node(tmp_path: Path) -> None:
    bound = Bindings.open(tmp_path / "nodes", {})
    bound.check("north", 2**63 + 1)
    bound.bind("north", 2**63 + 1)
    bound.bind("north", 5)  # the first one stands
    assert bound.nodes == Bindings.open(tmp_path / "nodes", {}).nodes == {"north": 2**63 + 1}
    for name, node in (("north", 5), ("south", 2**63 + 1)):
        with pytest.raises(ParticipantError):
            bound.check(name, node)
    moved = Bindings.open(tmp_path / "nodes", parse("north=5"))  # the site registered anew
    moved.check("north", 5)
    with pytest.raises(SettingError, match="north:5"):
        parse("north:5")


@pytest.mark.parametrize("content", [b"", b"[]", b'{"node": "x"}', b"{", b"9" * 5000])
def test_a_damaged_binding_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "north.json").write_bytes(content)
    with pytest.raises(FileError, match=r"north\.json"):
        Bindings.open(tmp_path, {})


def test_the_servers_settings_are_checked(tmp_path: Path) -> None:
    found = Settings.of({"job": "/srv/demo.pace", "deadline": 5, "journal": "", "nodes": "a=1"})
    assert (found.journal, found.out) == (Path("/srv/demo.journal"), Path("/srv/demo.report"))
    assert (found.deadline, found.delivery, dict(found.nodes)) == (5, None, {"a": 1})
    for wrong in ({}, {"job": "x", "deadline": "soon"}, {"job": "x", "patience": -1}):
        with pytest.raises(SettingError):
            Settings.of(wrong)
