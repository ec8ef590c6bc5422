"""A node's settings, its steps in a child process, and which node is which participant."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pace.errors import FileError, OtherJobError, ParticipantError, SettingError
from pace.protocol import steps
from pace.runtimes.files import model
from pace_network import site_steps
from pace_network.exchange import FAILED, TOO_SLOW, Words
from pace_network.round import Bindings, Settings, parse_nodes
from pace_network.site_steps import PROCESSES, respond
from tests.deployment import LONG, alive, descendants, kill, wait
from tests.graphs import clients
from tests.networked import site_node
from tests.sites import job, roll, write_sites


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"limit": 0}, "limit is 0, expected seconds above 0"),
        ({"limit": float("nan")}, "limit"),
        ({"device": "gpu"}, "device is 'gpu', expected cpu or cuda"),
    ],
)
def test_a_node_with_an_impossible_setting_is_refused(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    write_sites(tmp_path, job())
    assert site_node(tmp_path, "north", limit=5).limit == 5
    with pytest.raises(SettingError, match=says):
        site_node(tmp_path, "north", **change)


def test_a_node_trains_once_and_sends_the_same_bytes_again(tmp_path: Path) -> None:
    made = job()
    write_sites(tmp_path, made)
    node = site_node(tmp_path, "north")
    sent = site_steps.make_upload(node, made.digest)
    kept = (sent.parent / "local").stat().st_mtime_ns
    first = sent.read_bytes()
    sent.unlink()  # lost on the way to the disk
    assert site_steps.make_upload(node, made.digest).read_bytes() == first
    assert (sent.parent / "local").stat().st_mtime_ns == kept
    (returned,) = steps.merge([first], made.federation)
    called = roll(made, "north", first, returned)
    folder = site_steps.adopt_return(node, made.digest, returned, called)
    adopted = model.read_model(folder).outcome.adopted
    assert site_steps.adopt_return(node, made.digest, returned, called) == folder
    assert model.read_model(folder).outcome.adopted == adopted
    assert sorted(path.name for path in sent.parent.iterdir()) == [
        "local",
        "model",
        "north.down",
        "north.egress.html",
        "north.egress.json",
        "north.roll",
        "north.up",
    ]


def test_two_jobs_of_one_node_share_no_file(tmp_path: Path) -> None:
    for root in (tmp_path / "a", tmp_path / "b"):
        made = job()
        write_sites(root, made)
        node = site_node(root, "north", folder=tmp_path)
        assert site_steps.make_upload(node, made.digest).parent == tmp_path / made.digest[:16]


def test_a_node_with_the_key_of_another_is_refused(tmp_path: Path) -> None:
    from pace.jobs import signatures

    made = job(
        keys={
            name: signatures.new_keys(tmp_path / f"{name}.key", tmp_path / f"{name}.pub")
            for name in ("north", "south", "west", "server")
        }
    )
    write_sites(tmp_path, made)
    node = site_node(tmp_path, "north", key=tmp_path / "south.key")
    with pytest.raises(ParticipantError, match="south"):
        site_steps.make_upload(node, made.digest)


def fork_server() -> int:
    """The process that children are forked from, which has torch loaded."""
    from multiprocessing import forkserver

    found: int = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    return found


def test_both_steps_and_a_refusal_in_children_of_one_process(tmp_path: Path) -> None:
    """Real processes: an upload, a return, and a job that was not agreed on; torch is loaded once."""
    made = job()
    write_sites(tmp_path, made)
    node = site_node(tmp_path, "north", limit=LONG)
    reply = respond(node, "upload", {"job": made.digest})
    upload = steps.fit(clients(3)[0], made.federation)[1]
    assert reply == {"code": "ok", "name": "north", "payload": upload}
    parent = fork_server()
    (returned,) = steps.merge([upload], made.federation)
    called = roll(made, "north", upload, returned)
    words: Words = {"job": made.digest, "payload": returned, "roll": called}
    assert respond(node, "return", words) == {}
    assert 0 <= model.read_model(node.job_folder(made.digest) / "model").outcome.alpha <= 1
    assert respond(node, "upload", {"job": job().digest}) == {"code": OtherJobError.code}
    assert respond(node, "evaluate", {"job": made.digest}) == {"code": "format"}
    assert fork_server() == parent


def test_a_step_that_takes_too_long_is_ended_and_the_next_one_runs(tmp_path: Path) -> None:
    endless = job(epochs=10**9)
    write_sites(tmp_path, endless)
    node = site_node(tmp_path, "north", limit=5.0)
    respond(node, "upload", {"job": "0" * 64})  # torch is loaded
    began = time.monotonic()
    assert respond(node, "upload", {"job": endless.digest}) == {"code": TOO_SLOW}
    assert time.monotonic() - began < 60
    assert not {pid for pid in descendants({fork_server()}) if alive(pid)}
    again = respond(replace(node, limit=LONG), "upload", {"job": "0" * 64})
    assert again == {"code": OtherJobError.code}


def test_a_process_that_was_killed_is_started_again(tmp_path: Path) -> None:
    write_sites(tmp_path, job())
    node = site_node(tmp_path, "north", limit=LONG)
    respond(node, "upload", {"job": "0" * 64})
    first = fork_server()
    kill({first})
    wait(lambda: not alive(first), LONG)
    assert respond(node, "upload", {"job": "0" * 64}) == {"code": OtherJobError.code}
    assert fork_server() != first


def test_a_process_that_cannot_start_is_a_failure_without_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(11, "no more processes")

    write_sites(tmp_path, job())
    monkeypatch.setattr(PROCESSES.Process, "start", fail)
    assert respond(site_node(tmp_path, "north"), "upload", {"job": "0" * 64}) == {"code": "file"}


def test_a_step_that_dies_is_a_failure_without_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed for its memory, say: its end of the pipe closes."""
    write_sites(tmp_path, endless := job(epochs=10**9))
    node = site_node(tmp_path, "north", limit=LONG)
    respond(node, "upload", {"job": "0" * 64})
    ended: list[Words] = []
    import threading

    asking = threading.Thread(
        target=lambda: ended.append(respond(node, "upload", {"job": endless.digest}))
    )
    asking.start()
    wait(lambda: (endless_step := descendants({fork_server()})) and alive(max(endless_step)), LONG)
    kill(descendants({fork_server()}))
    asking.join(LONG)
    assert ended == [{"code": FAILED}]


ASKING = """
import sys
from pathlib import Path
from pace_network.node import Node
from pace_network.site_steps import respond
site, digest = Path(sys.argv[1]), sys.argv[2]
paths = dict(job=site / "job.pace", graph=site / "mine.graph", folder=site / "state")
if __name__ == "__main__":
    respond(Node(name="north", limit=3600.0, **paths), "upload", {"job": digest})
"""


def test_a_step_ends_with_the_process_that_asked(tmp_path: Path) -> None:
    """The node is killed while its step trains: the step ends too."""
    write_sites(tmp_path, endless := job(epochs=10**9))
    (tmp_path / "north/state").mkdir()
    (tmp_path / "asking.py").write_text(ASKING)
    words = [str(tmp_path / "asking.py"), str(tmp_path / "north"), endless.digest]
    with subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE) as asking:
        assert asking.stderr is not None
        assert b"asked for the upload" in asking.stderr.readline()
        family = descendants({asking.pid})
        assert len(family) >= 2  # the step, and the process it was forked from
        os.kill(asking.pid, signal.SIGKILL)
    wait(lambda: not any(map(alive, family)), LONG)


def test_a_name_belongs_to_one_node(tmp_path: Path) -> None:
    number, text = str(2**63 + 1), "ward 3/ünï:code"
    bound = Bindings.open(tmp_path / "nodes", {})
    bound.check("north", number)
    bound.bind("north", number)
    bound.bind("north", text)  # the first one stands
    assert bound.nodes == Bindings.open(tmp_path / "nodes", {}).nodes == {"north": number}
    for name, node in (("north", text), ("south", number)):
        with pytest.raises(ParticipantError):
            bound.check(name, node)
    moved = Bindings.open(tmp_path / "nodes", parse_nodes(f"north={text}"))  # it registered anew
    moved.check("north", text)
    moved.release("north")
    moved.bind("north", text)
    assert Bindings.open(tmp_path / "nodes", {}).nodes == {"north": text}
    with pytest.raises(SettingError, match="north:5"):
        parse_nodes("north:5")


@pytest.mark.parametrize("content", [b"", b"[]", b'{"node": 5}', b"{", b"9" * 5000])
def test_a_damaged_binding_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "north.json").write_bytes(content)
    with pytest.raises(FileError, match=r"north\.json"):
        Bindings.open(tmp_path, {})


@pytest.mark.parametrize("name", ["deadline", "delivery", "patience"])
def test_the_servers_settings_are_checked(name: str) -> None:
    paths = (Path("job.pace"), Path("job.journal"), Path("job.report"))
    assert Settings(*paths, **{name: 5.0}).deadline in (5.0, 600.0)  # type: ignore[arg-type]
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(SettingError, match=f"{name} is .*, expected seconds above 0"):
            Settings(*paths, **{name: wrong})  # type: ignore[arg-type]
