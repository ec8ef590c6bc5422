"""A real SuperLink and three real SuperNodes over TLS with authentication, and what goes wrong there.

One deployment for all tests, which run in this order. Each has a job of its own: the sites' job files
are replaced, which a node notices with its next step.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs pace-fgl[flower]: run `make test-flower`")

from pace.jobs import job_file
from pace.jobs.job import Job
from pace.methods import make
from pace.protocol import steps
from pace.runtimes.files import model
from pace.runtimes.simulation import simulate
from tests.deployment import (
    APP,
    EXAMPLE,
    LONG,
    Deployment,
    command,
    descendants,
    free_port,
    kill,
    processes,
    wait,
)
from tests.graphs import clients
from tests.sites import NAMES, job, write_sites

pytestmark = [
    pytest.mark.flower,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("flower"),
    pytest.mark.skipif(
        not all(map(shutil.which, ("bash", "openssl", "ssh-keygen"))) or not Path("/proc").is_dir(),
        reason="needs Linux with bash, openssl and ssh-keygen",
    ),
]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    made = Deployment(tmp_path_factory.mktemp("flower"))
    write_sites(made.work, job())
    try:
        made.serve()
        yield made
    finally:
        made.close()


def agree(here: Deployment, made: Job) -> Job:
    """Everybody gets this job; the server's earlier journal and report go away."""
    for place in (*NAMES, "server"):
        (here.work / place / "job.pace").unlink()
        job_file.write(here.work / place / "job.pace", made)
    for left in ("job.journal", "job.report"):
        shutil.rmtree(here.work / "server" / left, ignore_errors=True)
    return made


def run(here: Deployment, *words: str, app: Path = APP) -> subprocess.Popen[bytes]:
    return here.pace("run", "server/job.pace", "--app", str(app), *words)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, dict[str, Any]]:
    out, err = process.communicate()
    assert out, err.decode()
    return process.returncode, json.loads(out)


def at(here: Deployment, name: str, made: Job, file: str) -> Path:
    return here.work / name / "state" / made.digest[:16] / file


def test_strangers_are_refused(here: Deployment) -> None:
    """A node whose key nobody registered, and one that does not know the server's CA."""
    for name in NAMES:
        here.key(name)
    words = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /O=other"
    )
    subprocess.run(
        [*words.split(), "-keyout", "other.key", "-out", "other.crt"],
        cwd=here.work,
        check=True,
        capture_output=True,
    )
    north = here.join("north", RETRIES="1")
    south = here.join("south", RETRIES="1", CA=str(here.work / "other.crt"))
    assert north.wait() != 0
    assert "activate" in here.log("supernode-north")
    assert south.wait() != 0
    assert "certificate verify failed" in here.log("supernode-south").lower()


def test_a_deployment_and_a_simulation_give_equal_bytes_and_alphas(here: Deployment) -> None:
    made = agree(here, job(epochs=20))
    for name in NAMES:
        done = here.pace("register", f"{name}/node.pub")
        assert done.communicate()[0]
        assert done.returncode == 0
        here.join(name)
    code, found = ended(run(here))
    assert code == 0
    assert found["status"] == "finished:completed"
    assert found["report"]["finished"]
    assert sorted(each["name"] for each in found["report"]["took_part"]) == list(NAMES)

    graphs = clients(3)
    methods = {"pace": make("pace", made.rank)}
    (trial,) = simulate(graphs, made.model, methods, [made.seed], epochs=20)
    alphas = [model.read(at(here, name, made, "model")).alpha for name in NAMES]
    assert alphas == trial.alphas
    assert any(alpha > 0 for alpha in alphas)
    uploads = [steps.fit(graph, made.federation)[1] for graph in graphs]
    returns = steps.merge(uploads, made.federation)
    for name, upload, returned in zip(NAMES, uploads, returns, strict=True):
        assert at(here, name, made, f"{name}.up").read_bytes() == upload
        assert at(here, name, made, f"{name}.down").read_bytes() == returned
    assert trial.upload == [len(upload) for upload in uploads]
    shutil.copy(at(here, "west", made, "west.up"), here.work / "replayed")

    status = here.pace("status", found["run-id"])
    assert json.loads(status.communicate()[0])["runs"][0]["status"] == found["status"]
    assert status.returncode == 0


def with_client(here: Deployment, name: str, code: str) -> Path:
    """The app with another ClientApp."""
    shutil.copytree(APP, here.work / name)
    (here.work / name / "pace_app" / "client_app.py").write_text(code)
    return here.work / name


REPLAYING = """
from pathlib import Path
from flwr.app import Message
from flwr.clientapp import ClientApp
from pace.runtimes.flower import client
from pace.runtimes.flower.records import pack

def upload(message, context):
    if context.node_config["name"] != "west":
        return client.app(message, context)
    content = Path({path!r}).read_bytes()
    return Message(pack(dict(code="ok", name="west", payload=content)), reply_to=message)

app = ClientApp()
app.query("upload")(upload)
app.query("return")(client.app)
"""


def test_a_replayed_upload_is_refused_and_the_job_ends_by_its_minimum(here: Deployment) -> None:
    """West sends again what it sent in the job before. Nobody is listed: nobody else is waited for."""
    agree(here, job(participants=(), minimum=2))
    hostile = with_client(here, "hostile", REPLAYING.format(path=str(here.work / "replayed")))
    rc, found = ended(run(here, app=hostile))
    assert rc == 0
    assert [each["code"] for each in found["report"]["refused"]] == ["other-job"]
    assert [each["name"] for each in found["report"]["took_part"]] == ["north", "south"]


HOLDING = """
import time
from pathlib import Path
from flwr.clientapp import ClientApp
from pace.runtimes.flower import client

def returned(message, context):
    Path({came!r}).touch()
    while not Path({go!r}).exists():
        time.sleep(0.1)
    return client.app(message, context)

app = ClientApp()
app.query("upload")(client.app)
app.query("return")(returned)
"""


def test_a_serverapp_killed_between_the_exchanges_is_resumed(here: Deployment) -> None:
    """The returns are made and sent; no node confirms its own before the server is dead."""
    made = agree(here, job())
    journal, came, go = here.work / "server" / "job.journal", here.work / "came", here.work / "go"
    holding = with_client(here, "holding", HOLDING.format(came=str(came), go=str(go)))
    first = run(here, app=holding)
    wait(lambda: came.exists() or first.poll() is not None, LONG)
    assert first.poll() is None
    kill({pid for pid in here.family() if "flwr-serverapp" in command(pid)})
    go.touch()
    before = {path.name: path.read_bytes() for path in journal.glob("returns/*.down")}
    code, found = ended(first)
    assert (code, found["status"]) == (1, "finished:failed")

    code, found = ended(run(here))
    assert code == 0
    assert {each["step"] for each in found["report"]["contacts"]} == {"return"}
    assert {path.name: path.read_bytes() for path in journal.glob("returns/*.down")} == before
    for name in NAMES:
        assert at(here, name, made, f"{name}.down").read_bytes() == before[f"{name}.down"]


def test_without_a_node_that_was_killed_the_job_ends_by_its_policy(here: Deployment) -> None:
    """West dies while it is asked for its upload: two are enough, three are not."""
    made = agree(here, job(minimum=2))
    graph = here.work / "west" / "mine.graph"
    graph.unlink()
    os.mkfifo(graph)  # reading it waits for ever: west will not upload before it is killed
    running = run(here, "--deadline", "45")
    west = here.running["west"]
    wait(
        lambda: any(
            "pace.runtimes.network.worker" in command(pid) for pid in children(here, west.pid)
        ),
        LONG,
    )
    kill({west.pid} | children(here, west.pid))  # as if the machine lost its power
    west.wait()
    code, found = ended(running)
    while code != 0 and not found["report"]["merged"]:  # on a slow machine: run it again
        code, found = ended(run(here, "--deadline", "45"))
    assert code == 0
    assert found["report"]["missing"] == ["west"]
    assert [each["name"] for each in found["report"]["took_part"]] == ["north", "south"]
    assert not at(here, "west", made, "west.up").exists()

    agree(here, job(minimum=3))
    code, found = ended(run(here, "--deadline", "15"))  # who else came in time does not matter
    assert code == 1
    assert not found["report"]["merged"]
    assert "west" in found["report"]["missing"]
    assert not list((here.work / "server/job.journal/returns").iterdir())


def children(here: Deployment, pid: int) -> set[int]:
    here.family()
    return descendants({pid})


def test_nothing_is_left_running(here: Deployment) -> None:
    here.close()
    assert not here.family()


def test_the_example_runs_as_a_user_would_run_it(tmp_path: Path) -> None:
    """start.sh, by way of the script that measures it."""
    words = [sys.executable, str(EXAMPLE / "overhead.py"), str(tmp_path / "demo")]
    settings = {**os.environ, "PORT": str(free_port(1 + len(NAMES))), "PYTHON": sys.executable}
    done = subprocess.run(words, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "the same round in one process" in done.stdout
    assert len(list(tmp_path.glob("demo/*/state/*/model/README.md"))) == 3
    assert not [each.pid for each in processes() if str(tmp_path) in command(each.pid)]
