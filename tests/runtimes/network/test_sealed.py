"""A sealed job over the network's round: five sites, once with one missing."""

from pathlib import Path

import pytest

from pace.jobs import job_file, sealing
from pace.protocol import steps
from pace.runtimes.files import model
from tests.graphs import clients
from tests.networked import Clock, configs, connected, files, run, stopped
from tests.sealed import key_of, sealed_job, write_key
from tests.sites import write_graph

FIVE = ("east", "middle", "north", "south", "west")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return stopped(monkeypatch)


@pytest.mark.fault(34)
def test_five_sites_are_opened_when_the_last_one_is_there(tmp_path: Path) -> None:
    made = sealed_job(FIVE, epochs=10)
    (tmp_path / "server").mkdir()
    job_file.write(tmp_path / "server" / "job.pace", made)
    for name, graph in zip(FIVE, clients(5), strict=True):
        (tmp_path / name).mkdir()
        write_graph(tmp_path / name / "mine.graph", graph)
        job_file.write(tmp_path / name / "job.pace", made)
        write_key(tmp_path / name, name)
    key = write_key(tmp_path / "server", "server")
    nodes = configs(tmp_path, FIVE)
    for each in nodes.values():
        each["key"] = str(tmp_path / each["name"] / f"{each['name']}.key")
    few = {number: each for number, each in nodes.items() if each["name"] != "west"}
    waiting = run(tmp_path, connected(few), key=str(key))
    assert not waiting["finished"]
    assert "missing are west" in waiting["waiting"]
    assert files(tmp_path, "*.down") == {}

    finished = run(tmp_path, connected(nodes), key=str(key))
    assert finished["finished"]
    agreed = made.federation
    fitted = [
        steps.fit(graph, agreed, seal=sealing.seal(made, name, key_of(name)))
        for name, graph in zip(FIVE, clients(5), strict=True)
    ]
    returns = steps.merge([frame for _, frame in fitted], agreed)
    for name, graph, (kept, frame), returned in zip(FIVE, clients(5), fitted, returns, strict=True):
        (sent, *copies) = files(tmp_path, f"{name}.up").values()
        assert sent.startswith(frame)  # the signature follows
        assert all(copy == sent for copy in copies)
        (folder,) = (tmp_path / name / "state").glob("*/model")
        assert model.read(folder).alpha == steps.adopt(graph, kept, returned, agreed).alpha
