"""A method, a model, a dataset and a partition from a folder outside the package, and their code."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from pace.datasets import load
from pace.datasets.benchmarks import BENCHMARKS
from pace.datasets.partition import divide
from pace.errors import NotAllowedError, SettingError
from pace.io import plugins
from pace.jobs.job import Job, read_job, write_job
from pace.methods import make
from pace.models import kind_of, sized
from pace.protocol import steps
from pace.protocol.federation import Federation
from pace.registry import DATASETS, METHODS, MODELS, PARTITIONS, Registry
from tests.graphs import CLASSES, FEATURES, clients

SOURCE = '''
"""One of each, for tests."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from pace.datasets import Dataset
from pace.graph import Graph
from pace.methods import FedAvg
from pace.models.networks import MLP
from pace.protocol.method import External

Path(__file__).with_suffix(".imported").touch()


@dataclass(frozen=True)
class Halved(FedAvg):
    """FedAvg, of which a part is adopted."""

    part: float = 0.5

    def adopt(self, local, returned, graph, federation):
        return [External({name: self.part * value for name, value in returned.items()})]


@dataclass(frozen=True)
class Wide(MLP):
    """A perceptron with a setting."""

    factor: int = 1


def network(inputs: int, outputs: int) -> torch.nn.Module:
    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.out = torch.nn.Linear(inputs, outputs)

        def forward(self, x, edge_index):
            return self.out(x)

    return Plain()


def ring(nodes: int = 12, classes: int = 3) -> Dataset:
    """A ring whose classes take turns."""
    here = torch.arange(nodes)
    edges = torch.stack([here, (here + 1) % nodes])
    return Dataset("ring", Graph.build(torch.eye(nodes), edges, here % classes), classes)


def dealt(dataset, clients: int, step: int = 1):
    """Nodes dealt one after the other."""
    held = np.arange(dataset.graph.nodes) // step % clients
    return [np.flatnonzero(held == client) for client in range(clients)]


def wrong() -> int:
    return 3


def seeded(graph, clients: int, seed):
    return [range(graph.nodes)] * clients


def shared(dataset, clients: int):
    return [range(dataset.graph.nodes)] * clients


def numbered(dataset, clients: int):
    return torch.arange(dataset.graph.nodes) % clients
'''
KINDS = {"method": METHODS, "model": MODELS, "dataset": DATASETS, "partition": PARTITIONS}
OWN = {"method": "Halved", "model": "Wide", "dataset": "ring", "partition": "dealt"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """With the file, on the path, and forgotten afterwards."""
    (tmp_path / "own_ones.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PACE_ALLOW", "")
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0].startswith("own_")]:
        del sys.modules[name]


@pytest.fixture(params=["code", "entry point"])
def name_of(request: pytest.FixtureRequest, folder: Path) -> dict[str, str]:
    """How each is named: by its code, or by what an installed package calls it."""
    codes = {kind: f"own_ones:{name}" for kind, name in OWN.items()}
    for code in codes.values():
        plugins.allow(code)
    if request.param == "code":
        return codes
    place = folder / "own_ones-1.2.dist-info"
    place.mkdir()
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: own_ones\nVersion: 1.2\n")
    listed = "".join(f"[pace.{kind}s]\nmine = {code}\n" for kind, code in codes.items())
    (place / "entry_points.txt").write_text(listed)
    return dict.fromkeys(codes, "mine")


def test_a_method_from_a_folder(name_of: dict[str, str]) -> None:
    name = name_of["method"]
    agreed = Federation(sized("gcn", FEATURES, 8, 2, CLASSES), make(f"{name}:part=0.25"), epochs=2)
    graph = clients(1)[0]
    kept, upload = steps.fit(graph, agreed)
    (returned,) = steps.merge([upload], agreed)
    quarter = {key: value / 4 for key, value in kept.local.items()}
    torch.testing.assert_close(
        steps.adopt(graph, kept, returned, agreed).external, agreed.network(quarter, graph).logits
    )
    assert METHODS.sentence(name) == "FedAvg, of which a part is adopted."


def test_a_model_from_a_folder_in_a_job(name_of: dict[str, str], tmp_path: Path) -> None:
    model = sized(f"{name_of['model']}:factor=3", FEATURES, 8, 2, CLASSES)
    assert kind_of(model) == "own_ones:Wide"
    job = Job("mine", model, epochs=2)
    write_job(tmp_path / "job.pace", job)
    again = read_job(tmp_path / "job.pace")
    assert again.model == model
    assert len(again.content["model"]["code"]) == 64
    graph = clients(1)[0]
    kept, upload = steps.fit(graph, again.federation)
    (returned,) = steps.merge([upload], again.federation)
    assert steps.adopt(graph, kept, returned, again.federation).logits.isfinite().all()


def test_a_torch_factory_may_call_its_parameters_as_it_likes(folder: Path) -> None:
    plugins.allow("own_ones:network")
    assert kind_of(sized("own_ones:network", 5, 8, 2, 3)) == "own_ones:network"
    with pytest.raises(SettingError, match="has no settings of ours"):
        sized("own_ones:network:inputs=3", 5, 8, 2, 3)


def test_a_dataset_and_a_partition_from_a_folder(name_of: dict[str, str]) -> None:
    dataset = load(f"{name_of['dataset']}:nodes=30,classes=2")
    assert (dataset.name, dataset.graph.nodes, dataset.classes) == ("ring", 30, 2)
    held = divide(dataset, f"{name_of['partition']}:step=3", 2).nodes
    assert list(held[0]) == [node for node in range(30) if node // 3 % 2 == 0]
    with pytest.raises(SettingError, match="step is 'x', expected a whole number"):
        divide(dataset, f"{name_of['partition']}:step=x", 2)


def test_a_partition_whose_parameters_nobody_gives_says_which_there_are(folder: Path) -> None:
    plugins.allow("own_ones:seeded")
    with pytest.raises(SettingError, match=r"parameter 'graph'.*: dataset, clients, random"):
        divide(load("synthetic:nodes=60"), "own_ones:seeded", 2)


@pytest.mark.parametrize("name", ["shared", "numbered"])
def test_a_partition_that_gives_a_node_twice_or_no_lists_is_refused(
    folder: Path, name: str
) -> None:
    plugins.allow(f"own_ones:{name}")
    with pytest.raises(SettingError, match="every node to exactly one client"):
        divide(load("synthetic:nodes=60"), f"own_ones:{name}", 2)


def test_what_makes_no_dataset_is_refused(folder: Path) -> None:
    plugins.allow("own_ones:wrong")
    with pytest.raises(SettingError, match=r"makes a int, expected a pace\.datasets\.Dataset"):
        load("own_ones:wrong")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_imported_before_it_is_allowed(folder: Path, kind: str) -> None:
    name = f"own_ones:{OWN[kind]}"
    with pytest.raises(NotAllowedError, match=f"the {kind} '{name}'.*--allow {name}"):
        KINDS[kind].prepare(name)
    assert not (folder / "own_ones.imported").exists()


@pytest.mark.parametrize("registry", KINDS.values(), ids=KINDS)
def test_every_line_of_a_registry_leads_somewhere(registry: Registry) -> None:
    for name in registry:
        assert callable(registry.factory(name))
        assert registry.origin(name) == registry.packages.get(name, "built in")
    with pytest.raises(SettingError, match=f"there is no {registry.kind} 'zzz'.*choose from"):
        registry.listed("zzz")


def test_the_benchmarks_by_name_are_those_that_can_be_read() -> None:
    assert set(DATASETS) == {*BENCHMARKS, "synthetic", "synthetic-clash"}


def test_the_names_are_there_without_torch() -> None:
    code = "import sys, pace.registry as r; assert 'torch' not in sys.modules; print(*r.METHODS)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == list(METHODS)


HELPED = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\nFACTOR = 0.5\n"
USES = SOURCE.replace("import numpy", "from HELPER import FACTOR\nimport numpy")


def job_of(folder: Path, **named: str) -> Path:
    """A job of that method or model; its code is forgotten again."""
    for name in named.values():
        plugins.allow(name)
    model = sized(named.get("model", "gcn"), FEATURES, 8, 2, CLASSES)
    write_job(folder / "job.pace", Job("mine", model, named.get("method", "pace"), epochs=2))
    for name in [name for name in sys.modules if name.split(".")[0].startswith("own_")]:
        del sys.modules[name]
    for trace in [*folder.rglob("*.ran"), *folder.rglob("*.imported")]:
        trace.unlink()
    return folder / "job.pace"


@pytest.mark.parametrize("kind", ["method", "model"])
@pytest.mark.parametrize("packaged", [False, True])
def test_a_changed_helper_is_refused_before_any_of_it_runs(
    folder: Path, kind: str, packaged: bool
) -> None:
    if packaged:
        (folder / "own_package" / "deep").mkdir(parents=True)
        (folder / "own_package" / "__init__.py").touch()
        (folder / "own_package" / "ones.py").write_text(
            USES.replace("HELPER", "own_package.deep.helper")
        )
        helper, module = folder / "own_package" / "deep" / "helper.py", "own_package.ones"
    else:
        (folder / "own_ones.py").write_text(USES.replace("HELPER", "own_between"))
        (folder / "own_between.py").write_text("from own_helper import FACTOR as FACTOR\n")
        helper, module = folder / "own_helper.py", "own_ones"
    helper.write_text(HELPED)
    path = job_of(folder, **{kind: f"{module}:{OWN[kind]}"})
    helper.write_text(HELPED.replace("0.5", "0.6"))
    with pytest.raises(SettingError, match=rf"its {kind}\.code is '[0-9a-f]{{16}}', here it is"):
        read_job(path)
    assert [*folder.rglob("*.ran"), *folder.rglob("*.imported")] == []
    helper.write_text(HELPED.replace("\n", "\r\n"))  # line ends do not count
    assert read_job(path).name == "mine"
    assert [*folder.rglob("*.ran")] == [helper.with_suffix(".ran")]


def test_what_a_package_of_ours_has_needs_no_permission_where_it_is_installed(folder: Path) -> None:
    def registry() -> Registry:
        return Registry("gadget", {}, (), packages={"halved": "ours"})

    with pytest.raises(SettingError, match="gadget halved comes with the package ours: pip inst"):
        registry().listed("Halved")
    for package in ("ours", "theirs"):
        place = folder / f"{package}-1.2.dist-info"
        place.mkdir()
        (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        points = {"ours": "halved = own_ones:Halved", "theirs": "halved = own_ones:wrong"}
        (place / "entry_points.txt").write_text(f"[pace.gadgets]\n{points[package]}\n")
    here = registry()
    assert list(here) == ["halved"]
    assert not (folder / "own_ones.imported").exists()
    assert here.factory("halved").__name__ == "Halved"
    assert (here.code("halved"), here.origin("halved")) == (None, "ours")
