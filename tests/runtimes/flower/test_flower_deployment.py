"""A real SuperLink and three real SuperNodes over TLS with authentication, and what goes wrong there.

One deployment for all tests; each starts what of it is not running, so each runs by itself too. Each has
a job of its own: the sites' job files are replaced, which a node notices with its next step.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs pace-network[flower]: run `make test-flower`")
from pace.jobs.job import Job, write_job
from pace.methods import make
from pace.protocol import steps
from pace.runtimes.files import model
from pace.runtimes.simulation import simulate
from tests.deployment import (
    EXAMPLE,
    LONG,
    MARKS,
    Deployment,
    command,
    descendants,
    free_port,
    kill,
    processes,
    wait,
)
from tests.graphs import clients
from tests.sites import NAMES, job, write_graph

pytestmark = MARKS


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    made = Deployment(tmp_path_factory.mktemp("flower"))
    write_job(made.work / "job.pace", job())
    made.provision(made.work / "job.pace")
    for name, graph in zip(NAMES, clients(3), strict=True):
        write_graph(made.work / "kits" / name / "mine.graph", graph)
    try:
        yield made
    finally:
        made.close()


def start_all(here: Deployment) -> None:
    """The server and every site, where a test before has not started them or has ended them."""
    names = [name for name in NAMES if not runs(here, name)]
    if not runs(here, "server"):
        here.serve(len(NAMES))
    for name in names:
        here.start(name)
    wait(lambda: online(here) == len(NAMES), LONG)


def runs(here: Deployment, name: str) -> bool:
    return name in here.running and here.running[name].poll() is None


def agree(here: Deployment, made: Job) -> Job:
    """Everybody gets this job; the server's earlier journal and report go away."""
    for place in (*NAMES, "server"):
        (here.work / "kits" / place / "job.pace").unlink()
        write_job(here.work / "kits" / place / "job.pace", made)
    for left in ("job.journal", "job.report"):
        shutil.rmtree(here.work / "kits" / "server" / left, ignore_errors=True)
    return made


def ended(process: subprocess.Popen[bytes]) -> tuple[int, dict[str, Any]]:
    out, err = process.communicate()
    assert out, err.decode()
    return process.returncode, json.loads(out)


def at(here: Deployment, name: str, made: Job, file: str) -> Path:
    return here.work / "kits" / name / "state" / made.digest[:16] / file


def test_a_node_that_is_not_registered_yet_says_why_and_joins_when_it_is(here: Deployment) -> None:
    """North's key is withheld at first. South knows another CA and never gets in."""
    public = here.work / "kits" / "server" / "nodes" / "north.pub"
    public.rename(here.work / "north.pub")
    here.serve(2)
    here.start("north")
    wait(lambda: "is not registered there yet" in here.log("north"), LONG)
    other = here.work / "kits" / "south" / "ca.crt"
    right = other.read_bytes()
    other.write_bytes(here.certificate())
    here.start("south", "stranger")
    wait(
        lambda: "cannot be reached from here" in here.log("stranger"), LONG
    )  # and it goes on trying
    assert "certificate verify failed" in here.log("stranger").lower()
    assert here.running["south"].poll() is None
    here.stop("south")
    other.write_bytes(right)
    (here.work / "north.pub").rename(public)
    done = here.pace("register", str(public))
    assert json.loads(done.communicate()[0])["nodes"]["north"].isdecimal()
    wait(lambda: "SuperNode ID" in here.log("north"), LONG)


def test_a_deployment_and_a_simulation_give_equal_bytes_and_alphas(here: Deployment) -> None:
    made = agree(here, job(epochs=20))
    start_all(here)
    code, found = ended(here.run())
    assert code == 0
    assert found["status"] == "finished:completed"
    assert found["report"]["finished"]
    assert sorted(each["name"] for each in found["report"]["took_part"]) == list(NAMES)
    rows = {each["who"]: each for each in found["participants"]}
    assert sorted(rows) == list(NAMES)
    assert {each["state"] for each in rows.values()} == {"adopted"}

    graphs = clients(3)
    methods = {"pace": make("pace", settings=made.settings)}
    (trial,) = simulate(graphs, methods, model=made.model, seeds=[made.seed], epochs=20).trials
    alphas = [model.read_model(at(here, name, made, "model")).outcome.alpha for name in NAMES]
    assert alphas == trial.alphas
    assert any(alpha > 0 for alpha in alphas)
    uploads = [steps.fit(graph, made.federation)[1] for graph in graphs]
    returns = steps.merge(uploads, made.federation)
    for name, upload, returned in zip(NAMES, uploads, returns, strict=True):
        assert at(here, name, made, f"{name}.up").read_bytes() == upload
        assert at(here, name, made, f"{name}.down").read_bytes() == returned
    assert trial.upload == [len(upload) for upload in uploads]

    status = here.pace("status", found["run"])
    told = json.loads(status.communicate()[0])
    assert told["runs"][0]["status"] == found["status"]
    assert status.returncode == 0
    assert "External admitted" in here.log("north") or "Local kept" in here.log("north")
    assert "upload sent" in here.log("north")


REPLAYING = """
import sys
from pathlib import Path
from pace_network.flower import supernode

def respond(node, kind, words):
    if kind == "upload":
        return dict(code="ok", name="west", payload=Path(sys.argv[1]).read_bytes())
    return original(node, kind, words)

original, supernode.respond = supernode.respond, respond
if __name__ == "__main__":
    sys.exit(supernode.SuperNode.read(Path("node.toml")).run())
"""


def be(here: Deployment, name: str, code: str, *words: str) -> None:
    """A site whose node runs other code than ours, which only that site can choose."""
    here.stop(name)
    script = here.work / f"{name}.py"
    script.write_text(code)
    here.start(name, "", sys.executable, str(script), *words)
    joined = here.log(name).count("SuperNode ID")
    wait(lambda: here.log(name).count("SuperNode ID") > joined, LONG)


def test_a_replayed_upload_is_refused_and_the_job_ends_by_its_minimum(here: Deployment) -> None:
    """West sends again what it sent in the job before. No other site is waited for: none is listed."""
    agree(here, job(participants=(), minimum=2))
    start_all(here)
    before = steps.fit(clients(3)[NAMES.index("west")], job(epochs=20).federation)[1]
    (here.work / "replayed").write_bytes(before)
    be(here, "west", REPLAYING, str(here.work / "replayed"))
    rc, found = ended(here.run())
    assert rc == 0
    assert [each["code"] for each in found["report"]["refused"]] == ["other-job"]
    assert [each["name"] for each in found["report"]["took_part"]] == ["north", "south"]


HOLDING = """
import sys, time
from pathlib import Path
from pace_network.flower import supernode

def respond(node, kind, words):
    if kind == "return":
        Path(sys.argv[1]).touch()
        while not Path(sys.argv[2]).exists():
            time.sleep(0.1)
    return original(node, kind, words)

original, supernode.respond = supernode.respond, respond
if __name__ == "__main__":
    sys.exit(supernode.SuperNode.read(Path("node.toml")).run())
"""


def test_a_run_killed_between_the_exchanges_is_resumed(here: Deployment) -> None:
    """The returns are made and sent; no node confirms its own before the run is dead."""
    made = agree(here, job())
    start_all(here)
    journal, came, go = here.server / "job.journal", here.work / "came", here.work / "go"
    for name in NAMES:
        be(here, name, HOLDING, str(came), str(go))
    first = here.run()
    wait(lambda: came.exists() or first.poll() is not None, LONG)
    assert first.poll() is None
    first.kill()
    first.communicate()
    go.touch()
    before = {path.name: path.read_bytes() for path in journal.glob("returns/*.down")}
    assert before

    code, found = ended(here.run())
    assert code == 0
    assert {each["step"] for each in found["report"]["contacts"]} == {"return"}
    assert {path.name: path.read_bytes() for path in journal.glob("returns/*.down")} == before
    for name in NAMES:
        assert at(here, name, made, f"{name}.down").read_bytes() == before[f"{name}.down"]


def test_without_a_node_that_was_killed_the_job_ends_by_its_policy(here: Deployment) -> None:
    """West dies while it is asked for its upload: two are enough, three are not."""
    made = agree(here, job(minimum=2))
    start_all(here)
    west = here.running["west"]
    os.kill(west.pid, signal.SIGSTOP)  # west will not upload before it is killed
    running = here.run("--deadline", "45")
    wait(lambda: len(list(here.server.glob("job.journal/uploads/*.up"))) == 2, LONG)
    gone = {west.pid} | children(here, west.pid)
    kill(gone | descendants(gone))  # as if the machine lost its power
    west.wait()
    code, found = ended(running)
    while code != 0 and not found["report"]["merged"]:  # on a slow machine: run it again
        code, found = ended(here.run("--deadline", "45"))
    assert code == 0
    assert found["report"]["missing"] == ["west"]
    assert [each["name"] for each in found["report"]["took_part"]] == ["north", "south"]
    assert not at(here, "west", made, "west.up").exists()

    agree(here, job(minimum=3))
    code, found = ended(here.run("--deadline", "15"))  # who else came in time does not matter
    assert code == 1
    assert not found["report"]["merged"]
    assert "west" in found["report"]["missing"]
    assert not list((here.work / "kits/server/job.journal/returns").iterdir())


def children(here: Deployment, pid: int) -> set[int]:
    here.family()
    return descendants({pid})


def test_a_supernode_that_is_killed_comes_back_by_itself(here: Deployment) -> None:
    """Flower's process alone: its node notices, says so and starts another, which joins."""
    start_all(here)
    here.family()
    (flowers,) = (
        pid
        for pid in descendants({here.running["north"].pid})
        if "flower-supernode" in command(pid) and "--superlink" in command(pid)
    )
    joined = here.log("north").count("SuperNode ID")
    kill({flowers})
    wait(lambda: here.log("north").count("SuperNode ID") > joined, LONG)
    assert "Tried again in 10 s" in here.log("north")


def test_a_lost_database_strands_no_return(here: Deployment) -> None:
    """Nodes get other numbers. Their job has keys, so a run finds them again and delivers."""
    from pace.jobs import signatures

    folders = [here.work / "kits" / name for name in (*NAMES, "server")]
    keys = {path.name: path / f"{path.name}.key" for path in folders}
    publics = {
        name: signatures.new_keys(key, key.with_suffix(".public")) for name, key in keys.items()
    }
    made = agree(here, job(keys=publics))
    for name in NAMES:
        with (here.work / "kits" / name / "node.toml").open("a") as file:
            file.write(f'key = "{name}.key"\n')
        if runs(here, name):
            here.stop(name)
    start_all(here)
    code, found = ended(here.run("--delivery", "0.001"))  # the uploads are here, the returns made
    assert (code, found["report"]["undelivered"]) == (1, list(NAMES))
    assert "No confirmation from north, south, west" in found["why"]
    before = {row["who"]: row["node"] for row in found["participants"]}
    for name in (*NAMES, "server"):
        here.stop(name)
    for path in here.server.glob("superlink.db*"):
        path.unlink()
    (here.work / "server.log").unlink()
    start_all(here)
    code, found = ended(here.run())
    assert (code, found["report"]["undelivered"]) == (0, [])
    after = {row["who"]: row["node"] for row in found["participants"]}
    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values())
    for name in NAMES:
        assert at(here, name, made, f"{name}.down").exists()


def online(here: Deployment) -> int:
    nodes = json.loads(here.pace("status").communicate()[0])["nodes"]
    return sum(node["status"] == "online" for node in nodes)


def test_nothing_is_left_running(here: Deployment) -> None:
    here.close()
    assert not here.family()


def test_a_run_that_is_stopped_or_loses_its_superlink_ends_with_one(tmp_path: Path) -> None:
    """Nobody has joined, so the run would wait. Both endings are 1, as the command's help says."""
    alone = Deployment(tmp_path)
    write_job(tmp_path / "job.pace", job())
    alone.provision(tmp_path / "job.pace")
    try:
        alone.serve(3)
        running = alone.run()
        number = started(alone)
        stop = alone.pace("stop", number)
        assert json.loads(stop.communicate()[0]) == {"run": number, "stopped": True}
        code, found = ended(running)
        assert (code, found["status"]) == (1, "finished:stopped")
        running = alone.run()
        assert started(alone, besides=number)
        kill({alone.running["server"].pid} | children(alone, alone.running["server"].pid))
        _, said = running.communicate()
        assert running.returncode == 1
        assert b"was lost" in said
    finally:
        alone.close()


def started(here: Deployment, besides: str = "") -> str:
    """The number of a run that is running."""
    found: list[str] = []

    def running() -> bool:
        told = json.loads(here.pace("status").communicate()[0])["runs"]
        found[:] = [
            each["run"] for each in told if each["status"] == "running" and each["run"] != besides
        ]
        return bool(found)

    wait(running, LONG)
    return found[0]


def test_the_example_runs_as_a_user_would_run_it(tmp_path: Path) -> None:
    """start.sh, by way of the script that measures it."""
    words = [sys.executable, str(EXAMPLE / "overhead.py"), str(tmp_path / "demo")]
    settings = {**os.environ, "PORT": str(free_port(2 + len(NAMES))), "PYTHON": sys.executable}
    done = subprocess.run(words, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "the same round in one process" in done.stdout
    assert len(list(tmp_path.glob("demo/kits/*/state/*/model/README.md"))) == 3
    assert not [each.pid for each in processes() if str(tmp_path) in command(each.pid)]
