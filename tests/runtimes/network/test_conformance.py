"""What every engine must survive: the same faults on each, and each return equal to the byte."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from pace.jobs import Job
from pace.protocol import steps
from pace.runtimes.files import egress
from pace_network import site_steps
from pace_network.exchange import FAILED, Words
from pace_network.node import Node
from pace_network.progress import Event
from tests.engines import ENGINES, FAULTS, Failing, play_faulty
from tests.graphs import clients
from tests.networked import files
from tests.sites import NAMES, job, write_sites


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Job, dict[str, bytes]]:
    """Sites that wait for the round, and the returns that it must bring."""
    root, made = tmp_path_factory.mktemp("sites"), job()
    write_sites(root, made)
    uploads = [steps.fit(graph, made.federation)[1] for graph in clients(3)]
    returns = steps.merge(uploads, made.federation)
    return root, made, dict(zip(NAMES, returns, strict=True))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_survives_every_fault(
    engine: str,
    fault: str,
    trained: tuple[Path, Job, dict[str, bytes]],
    tmp_path: Path,
) -> None:
    root = tmp_path / "sites"
    shutil.copytree(trained[0], root)
    events: list[Event] = []
    report, _ = play_faulty(root, engine, fault, say=events.append)
    assert report.finished
    assert [client.name for client in report.took_part] == list(NAMES)
    for name, returned in trained[2].items():
        assert set(files(root, f"{name}.down").values()) == {returned}
        assert len(files(root / name, f"{name}.down")) == 1
    assert ("failing" in {event.state for event in events}) is (FAULTS[fault] is Failing)
    assert {row.state for row in report.participants if row.node} == {"adopted"}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_survives_sites_that_are_killed_while_they_train(
    engine: str,
    trained: tuple[Path, Job, dict[str, bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each site's first fit dies, trained and nothing kept, in a process of its own."""
    root, answer, died = tmp_path / "sites", site_steps.answer_message, set()
    shutil.copytree(trained[0], root)

    def dying(node: Node, kind: str, words: Mapping[str, object]) -> Words:
        if node.name in died:
            return answer(node, kind, words)
        died.add(node.name)
        if (child := os.fork()) == 0:
            kill = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
            egress.measure_egress = kill  # type: ignore[assignment] # first after training
            answer(node, kind, words)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        return {"code": FAILED}

    monkeypatch.setattr(site_steps, "answer_message", dying)
    report, _ = play_faulty(root, engine, "fault")
    assert report.finished
    assert died == set(NAMES)
    for name, returned in trained[2].items():
        assert set(files(root / name, f"{name}.down").values()) == {returned}
