"""Five real SuperNodes over TLS in a sealed job: nothing is opened while one is missing, then all is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("flwr", reason="needs pace-network[flower]: run `make test-flower`")

from pace.errors import TooFewError
from pace.jobs.job import SERVER, Job, write_job
from pace.protocol import layouts, steps
from pace.runtimes.files import model
from tests.deployment import MARKS, Deployment
from tests.graphs import clients
from tests.sealed import key_of, sealed_job, write_key
from tests.sites import write_graph

pytestmark = MARKS
FIVE = ("east", "middle", "north", "south", "west")
DEADLINE = "25"  # seconds; where four uploads take longer, the job is run again


class Here(NamedTuple):
    """A deployment with everybody's keys, and the job that all have."""

    deployment: Deployment
    job: Job

    @property
    def kits(self) -> Path:
        return self.deployment.work / "kits"

    def run(self, *words: str) -> tuple[int, dict[str, Any]]:
        started = self.deployment.run(*words)
        out, err = started.communicate()
        assert out, err.decode()
        return started.returncode, json.loads(out)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    made = Here(Deployment(tmp_path_factory.mktemp("sealed")), sealed_job(FIVE, epochs=10))
    write_job(made.deployment.work / "job.pace", made.job)
    made.deployment.provision(made.deployment.work / "job.pace")
    write_key(made.kits / SERVER, SERVER)
    for name, graph in zip(FIVE, clients(5), strict=True):
        write_graph(made.kits / name / "mine.graph", graph)
        write_key(made.kits / name, name)
    try:
        yield made
    finally:
        made.deployment.close()


def test_while_one_is_missing_nothing_is_opened_and_it_is_named(here: Here) -> None:
    here.deployment.serve(len(FIVE))
    for name in FIVE[:-1]:
        here.deployment.start(name)
    code, found = here.run("--deadline", DEADLINE)
    while len(found["report"]["here"]) < len(FIVE) - 1:  # on a slow machine
        code, found = here.run("--deadline", DEADLINE)
    assert (code, found["status"]) == (1, "finished:failed")
    report = found["report"]
    assert (report["merged"], report["missing"], report["took_part"]) == (False, ["west"], [])
    assert "4 of at least 5 uploads are here, missing are west" in report["waiting"]
    assert "nothing of it can be opened" in report["waiting"]
    journal = here.kits / SERVER / "job.journal"
    assert sorted(path.stem for path in journal.rglob("*.up")) == list(FIVE[:-1])
    assert not list(here.kits.rglob("*.down"))
    assert not list(here.kits.rglob("model"))
    # What the server has are four uploads, and four do not open.
    layout = layouts.upload_layout(here.job.federation)
    frames = [path.read_bytes()[: layout.size] for path in sorted(journal.rglob("*.up"))]
    with pytest.raises(TooFewError, match="all together or not at all"):
        steps.merge(frames, here.job.federation)


def test_when_it_has_come_all_adopt_what_one_process_gives(here: Here) -> None:
    here.deployment.start("west")
    code, found = here.run()
    assert (code, found["status"]) == (0, "finished:completed")
    assert [each["name"] for each in found["report"]["took_part"]] == list(FIVE)
    assert {each["state"] for each in found["participants"]} == {"adopted"}
    agreed = here.job.federation
    fitted = [
        steps.fit(graph, agreed, seal=here.job.seal(name, key_of(name)))
        for name, graph in zip(FIVE, clients(5), strict=True)
    ]
    returns = steps.merge([frame for _, frame in fitted], agreed)
    alphas = []
    for name, graph, (kept, frame), returned in zip(FIVE, clients(5), fitted, returns, strict=True):
        state = here.kits / name / "state" / here.job.digest[:16]
        assert (state / f"{name}.up").read_bytes().startswith(frame)  # the signature follows
        assert (state / f"{name}.down").read_bytes().startswith(returned)
        alphas.append(steps.adopt(graph, kept, returned, agreed).alpha)
        assert model.read_model(state / "model").outcome.alpha == alphas[-1]
    assert any(alpha > 0 for alpha in alphas)
