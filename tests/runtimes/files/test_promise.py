"""A method that promises nothing is for experiments: real jobs refuse it unless it is asked for."""

from pathlib import Path

import pytest

from pace.errors import SettingError
from pace.jobs import check_promise
from pace.methods import METHODS
from pace_network.node import Node
from tests.preloaded import Preloaded
from tests.runtimes.files.test_files import good, refused
from tests.sites import FIT, job, write_sites


@pytest.mark.fault(57)
def test_methods_without_a_promise_are_refused_at_maker_client_and_node(
    pace: Preloaded, tmp_path: Path
) -> None:
    words = ("new", "job.pace", "--features", "4", "--classes", "2", "--method", "pace-half")
    refused(pace(*words, cwd=tmp_path), "pace-half promises nothing")
    assert not (tmp_path / "job.pace").exists()
    good(pace(*words, "--without-promise", cwd=tmp_path))
    north = write_sites(tmp_path, job(method="pace-transport"))[0]
    refused(pace(*FIT, "north.up", cwd=north), "pace-transport promises nothing")
    assert not (north / "north.up").exists()
    good(pace(*FIT, "north.up", "--without-promise", cwd=north))
    node = Node(name="north", job=north / "job.pace", graph=north / "mine.graph")
    (problem,) = node.problems()
    assert "without_promise = true" in problem


def test_all_others_are_taken() -> None:
    for name in METHODS:
        made = job(method=name)
        if name in ("pace-half", "pace-transport"):
            with pytest.raises(SettingError):
                check_promise(made, agreed=False)
        elif name != "local":
            check_promise(made, agreed=False)
