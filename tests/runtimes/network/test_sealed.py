"""A sealed job over the network's round: five sites, once with one missing."""

from dataclasses import replace
from pathlib import Path

import pytest

from pace.jobs.job import SERVER, Job, write_job
from pace.protocol import steps
from pace.runtimes.files import model, sealed_jobs
from pace_network.node import Node
from tests.graphs import clients
from tests.networked import connected, files, run, site_nodes
from tests.sealed import key_of, sealed_job, write_key
from tests.sites import write_graph

FIVE = ("east", "middle", "north", "south", "west")


pytestmark = pytest.mark.usefixtures("clock")


def write(root: Path, made: Job) -> dict[str, Node]:
    """Everybody's folder with the job and a key; the nodes' settings."""
    places = zip((*made.participants, SERVER), (*clients(5), None), strict=True)
    for name, graph in places:
        (root / name).mkdir(exist_ok=True)
        write_job(root / name / "job.pace", made)
        write_key(root / name, name)
        if graph is not None:
            write_graph(root / name / "mine.graph", graph)
    return {
        number: replace(node, key=root / node.name / f"{node.name}.key")
        for number, node in site_nodes(root, made.participants).items()
    }


@pytest.mark.fault(34)
def test_five_sites_are_opened_when_the_last_one_is_there(tmp_path: Path) -> None:
    made = sealed_job(FIVE, epochs=10)
    nodes, key = write(tmp_path, made), tmp_path / SERVER / f"{SERVER}.key"
    few = {number: node for number, node in nodes.items() if node.name != "west"}
    waiting = run(tmp_path, connected(few), key=key)
    assert not waiting["finished"]
    assert "missing are west" in waiting["waiting"]
    assert files(tmp_path, "*.down") == {}

    finished = run(tmp_path, connected(nodes), key=key)
    assert finished["finished"]
    agreed = made.federation
    fitted = [
        steps.fit(graph, agreed, seal=made.seal(name, key_of(name)))
        for name, graph in zip(FIVE, clients(5), strict=True)
    ]
    returns = steps.merge([frame for _, frame in fitted], agreed)
    for name, graph, (kept, frame), returned in zip(FIVE, clients(5), fitted, returns, strict=True):
        (sent, *copies) = files(tmp_path, f"{name}.up").values()
        assert sent.startswith(frame)  # the signature follows
        assert all(copy == sent for copy in copies)
        (folder,) = (tmp_path / name / "state").glob("*/model")
        assert (
            model.read_model(folder).outcome.alpha
            == steps.adopt(graph, kept, returned, agreed).alpha
        )


def test_a_node_asked_into_an_overlapping_job_waits_for_its_operators_yes(tmp_path: Path) -> None:
    nodes = write(tmp_path, sealed_job(FIVE))
    key = tmp_path / SERVER / f"{SERVER}.key"
    earlier = sealed_job(("west", "south", "elsewhere"))
    sealed_jobs.remember(key_of("west"), earlier, b"frame")
    waiting = run(tmp_path, connected(nodes), key=key)
    assert {each["code"] for each in waiting["contacts"]} == {"ok", "overlap"}
    assert "missing are west" in waiting["waiting"]
    agreed = {
        number: replace(node, overlapping=node.name == "west") for number, node in nodes.items()
    }
    assert run(tmp_path, connected(agreed), key=key)["finished"]
