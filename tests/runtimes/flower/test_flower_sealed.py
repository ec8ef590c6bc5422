"""Five real SuperNodes over TLS in a sealed job, once with one of them missing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs pace-fgl[flower]: run `make test-flower`")

from pace.jobs import job_file, sealing
from pace.protocol import steps
from pace.runtimes.files import model
from tests.deployment import APP, Deployment
from tests.graphs import clients
from tests.sealed import key_of, sealed_job, write_key
from tests.sites import write_graph

pytestmark = [
    pytest.mark.flower,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("flower"),
    pytest.mark.skipif(
        not all(map(shutil.which, ("bash", "openssl", "ssh-keygen"))) or not Path("/proc").is_dir(),
        reason="needs Linux with bash, openssl and ssh-keygen",
    ),
]
FIVE = ("east", "middle", "north", "south", "west")


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Deployment]:
    made = Deployment(tmp_path)
    try:
        made.serve()
        yield made
    finally:
        made.close()


def ended(here: Deployment, *words: str) -> tuple[int, dict[str, Any]]:
    key = str(here.work / "server" / "server.key")
    started = here.pace("run", "server/job.pace", "--app", str(APP), "--key", key, *words)
    out, err = started.communicate()
    assert out, err.decode()
    return started.returncode, json.loads(out)


@pytest.mark.fault(34)
def test_five_nodes_are_opened_when_the_last_one_is_there(here: Deployment) -> None:
    made = sealed_job(FIVE, epochs=10)
    (here.work / "server").mkdir()
    job_file.write(here.work / "server" / "job.pace", made)
    write_key(here.work / "server", "server")
    for name, graph in zip(FIVE, clients(5), strict=True):
        site = here.work / name
        site.mkdir()
        write_graph(site / "mine.graph", graph)
        job_file.write(site / "job.pace", made)
        write_key(site, name)
        here.key(name)
        registered = here.pace("register", f"{name}/node.pub")
        registered.communicate()
        assert registered.returncode == 0
        if name != "west":
            here.join(name, NODE_CONFIG=f'key="{site / f"{name}.key"}"')
    code, waiting = ended(here, "--deadline", "90")
    assert code != 0
    assert "missing are west" in waiting["report"]["waiting"]
    assert not list(here.work.rglob("*.down"))

    here.join("west", NODE_CONFIG=f'key="{here.work / "west" / "west.key"}"')
    code, finished = ended(here)
    assert code == 0, finished
    assert finished["report"]["finished"]
    agreed = made.federation
    fitted = [
        steps.fit(graph, agreed, seal=sealing.seal(made, name, key_of(name)))
        for name, graph in zip(FIVE, clients(5), strict=True)
    ]
    returns = steps.merge([frame for _, frame in fitted], agreed)
    for name, graph, (kept, frame), returned in zip(FIVE, clients(5), fitted, returns, strict=True):
        state = here.work / name / "state" / made.digest[:16]
        assert (state / f"{name}.up").read_bytes().startswith(frame)  # the signature follows
        assert (state / f"{name}.down").read_bytes().startswith(returned)
        alpha = steps.adopt(graph, kept, returned, agreed).alpha
        assert model.read(state / "model").alpha == alpha
