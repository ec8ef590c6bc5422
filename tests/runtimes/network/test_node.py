"""A node's settings, steps and watchdog; which node is which participant; the server's settings."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pace.errors import OtherJobError, ParticipantError, SettingError
from pace.protocol import steps
from pace.runtimes.files import model
from pace.runtimes.network import codes, site_steps, watchdog
from pace.runtimes.network.bindings import Bindings, parse
from pace.runtimes.network.node import Node
from pace.runtimes.network.settings import Settings
from tests.deployment import LONG, alive, wait
from tests.graphs import clients
from tests.sites import job, write_sites


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
    folder = site_steps.adopt(node, made.digest, returned)
    adopted = model.read(folder).about["adopted"]
    assert site_steps.adopt(node, made.digest, returned) == folder
    assert model.read(folder).about["adopted"] == adopted
    assert sorted(path.name for path in sent.parent.iterdir()) == [
        "local",
        "model",
        "north.down",
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
            name: signatures.new(tmp_path / f"{name}.key", tmp_path / f"{name}.pub")
            for name in ("north", "south", "west", "server")
        }
    )
    write_sites(tmp_path, made)
    node = Node.of(config(tmp_path, key=str(tmp_path / "south.key")))
    with pytest.raises(ParticipantError, match="south"):
        site_steps.upload(node, made.digest)


def test_the_watchdog_brings_back_a_file_or_a_code(tmp_path: Path) -> None:
    """Three real processes: an upload, a return, and a job nobody agreed on."""
    made = job()
    write_sites(tmp_path, made)
    told = config(tmp_path, limit=LONG)
    done = watchdog.run(told, "upload", made.digest)
    assert done["code"] == "ok"
    upload = Path(done["made"]).read_bytes()
    assert upload == steps.fit(clients(3)[0], made.federation)[1]
    (returned,) = steps.merge([upload], made.federation)
    done = watchdog.run(told, "return", made.digest, returned)
    assert done["code"] == "ok"
    assert 0 <= model.read(Path(done["made"])).alpha <= 1
    assert watchdog.run(told, "upload", job().digest) == {"code": OtherJobError.code}


def test_a_step_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is said to have been too slow, also if its end is read before whoever killed it goes on."""
    write_sites(tmp_path, job())
    os.mkfifo(tmp_path / "never")  # reading the job waits for a writer, for ever
    told = config(tmp_path, limit=1.0) | {"job": str(tmp_path / "never")}
    read, kill = threading.Event(), subprocess.Popen.kill

    def slowly(worker: subprocess.Popen[bytes]) -> None:
        kill(worker)
        assert read.wait()

    monkeypatch.setattr(subprocess.Popen, "kill", slowly)
    try:
        assert watchdog.run(told, "upload", "0" * 64) == {"code": codes.TOO_SLOW}
    finally:
        read.set()


def test_a_worker_that_dies_before_it_listens_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed, or out of memory: what is written to it breaks the pipe, and closing it does again."""
    write_sites(tmp_path, job())
    real = subprocess.Popen

    def dead(*given: Any, **named: Any) -> subprocess.Popen[bytes]:
        made = real(*given, **named)
        made.wait()
        return made

    monkeypatch.setattr(subprocess, "Popen", dead)
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    for returned in (b"", bytes(2**20)):
        done = watchdog.run(config(tmp_path), "return", "0" * 64, returned)
        assert done == {"code": codes.FAILED}


def test_the_worker_ends_with_whoever_asked(tmp_path: Path) -> None:
    """The ClientApp is killed while its worker waits: no process is left behind."""
    write_sites(tmp_path, job())
    os.mkfifo(tmp_path / "never")
    told = config(tmp_path, limit=LONG) | {"job": str(tmp_path / "never")}
    program = (
        "import subprocess, json\n"
        "from pace.runtimes.network import watchdog\n"
        "real = subprocess.Popen\n"
        "def noted(*given, **named):\n"
        "    made = real(*given, **named)\n"
        "    print(made.pid, flush=True)\n"
        "    return made\n"
        "watchdog.subprocess.Popen = noted\n"
        f"watchdog.run(json.loads({json.dumps(json.dumps(told))}), 'upload', '0' * 64)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait(lambda: not alive(worker), LONG)


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


def test_the_servers_settings_are_checked(tmp_path: Path) -> None:
    found = Settings.of({"job": "/srv/demo.pace", "deadline": 5, "journal": "", "nodes": "a=1"})
    assert (found.journal, found.out) == (Path("/srv/demo.journal"), Path("/srv/demo.report"))
    assert (found.deadline, found.delivery, dict(found.nodes)) == (5, 300, {"a": 1})
    for wrong in ({}, {"job": "x", "deadline": "soon"}, {"job": "x", "patience": -1}):
        with pytest.raises(SettingError):
            Settings.of(wrong)
