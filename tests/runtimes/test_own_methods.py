"""A method in one file outside the package runs where it was allowed, and nowhere else."""

import importlib.util
import py_compile
import shutil
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from pace.errors import NotAllowedError, OtherJobError, SettingError
from pace.io import plugins
from pace.jobs import explain
from pace.jobs.job import Job, read_job, write_job
from pace.protocol import steps
from pace_network import site_steps
from pace_network.flower import kits
from pace_network.flower.supernode import SuperNode
from tests import own_methods
from tests.graphs import clients
from tests.networked import site_node
from tests.preloaded import Preloaded, good
from tests.sites import ADOPT, FIT, MERGE, NAMES, job, write_graph, write_sites


@pytest.fixture
def made(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job of that method; its trace is gone again."""
    name = own_methods.write(own_folder)
    with plugins.allowing([name]):
        found = job(method=name, settings={"part": 0.25, "levels": [1, 2]}, rate=0.05, decay=0.0)
        assert found.federation.digest
    monkeypatch.delitem(sys.modules, "own_scaled")
    (own_folder / "own_scaled.imported").unlink()
    return found


def test_a_job_says_which_code_with_which_settings(own_folder: Path, made: Job) -> None:
    write_job(own_folder / "job.pace", made)
    text = (own_folder / "job.pace").read_text()
    for line in ('name = "own_scaled:Scaled"', "part = 0.25", "levels = [1, 2]", "rate = 0.05"):
        assert f"\n{line}" in text, line
    with plugins.allowing(["own_scaled:Scaled"]):
        found = read_job(own_folder / "job.pace")
        assert found.digest == made.digest
        assert found.federation.digest == made.federation.digest
        assert (found.federation.recipe.rate, found.federation.recipe.decay) == (0.05, 0.0)
        assert "own_scaled:Scaled" in explain.job_facts(found)["method"]
        assert "part 0.25" in explain.job_facts(found)["method"]


def test_a_job_is_refused_unread_where_its_code_is_not_allowed(own_folder: Path, made: Job) -> None:
    write_job(own_folder / "job.pace", made)
    with pytest.raises(
        NotAllowedError, match=r"'own_scaled:Scaled' is code from .*--allow own_scaled:S"
    ):
        read_job(own_folder / "job.pace")
    assert not own_methods.imported(own_folder)


def test_other_code_under_the_same_name_is_noticed(
    own_folder: Path, made: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_job(own_folder / "job.pace", made)
    source = own_folder / "own_scaled.py"
    source.write_bytes(source.read_bytes().replace(b"\n", b"\r\n"))  # line ends do not matter
    with plugins.allowing(["own_scaled:Scaled"]):
        assert read_job(own_folder / "job.pace").digest == made.digest
        source.write_text(own_methods.SOURCE.replace("self.part *", "0.9 *"))
        monkeypatch.delitem(sys.modules, "own_scaled")
        with pytest.raises(SettingError, match=r"its method\.code is '[0-9a-f]{16}', here it is"):
            read_job(own_folder / "job.pace")


def package(folder: Path, value: str) -> Path:
    """`owned.method:VALUE` in a package with a folder that is a link."""
    (folder / "owned").mkdir()
    (folder / "elsewhere").mkdir()
    (folder / "owned" / "__init__.py").write_text("")
    (folder / "owned" / "helpers").symlink_to(folder / "elsewhere")
    (folder / "elsewhere" / "more.py").write_text(f"VALUE = {value!r}\n")
    path = folder / "owned" / "method.py"
    path.write_text("from owned.helpers.more import VALUE\n")
    return path


def test_what_a_package_links_to_is_a_part_of_its_digest(own_folder: Path) -> None:
    package(own_folder, "honest")
    digest = plugins.code_digest("owned.method:VALUE", "method")
    (own_folder / "elsewhere" / "more.py").write_text("VALUE = 'changed'\n")
    assert plugins.code_digest("owned.method:VALUE", "method") != digest


def test_what_runs_is_the_file_that_was_hashed_and_no_compiled_one(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python itself runs a compiled file whose header says that its source need not be compared."""
    path = package(own_folder, "honest")
    evil = own_folder / "evil.py"
    evil.write_text("VALUE = 'evil'\n")
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    place = importlib.util.cache_from_source(str(path))
    py_compile.compile(str(evil), cfile=place, doraise=True, invalidation_mode=unchecked)
    names = ("owned", "owned.method", "owned.helpers", "owned.helpers.more")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert importlib.import_module("owned.method").VALUE == "evil"  # what Python does
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    with plugins.allowing(["owned.method:VALUE"]):
        assert plugins.load_code("owned.method:VALUE", "method") == "honest"


def test_code_whose_files_cannot_be_read_is_refused(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(own_folder / "code.zip", "w") as archive:
        archive.writestr("zipped.py", "VALUE = 1\n")
    monkeypatch.syspath_prepend(own_folder / "code.zip")
    with pytest.raises(SettingError, match="its files cannot be read"):
        plugins.code_digest("zipped:VALUE", "method")


def test_every_setting_is_in_the_digest() -> None:
    plain = job(method="fedprox")
    for changes in ({"settings": {"mu": 0.5}}, {"rate": 0.5}, {"decay": 0.5}):
        other = job(method="fedprox", nonce=plain.nonce, **changes)
        assert other.digest != plain.digest, changes
        assert other.federation.digest != plain.federation.digest, changes


def test_a_changed_setting_is_noticed(tmp_path: Path) -> None:
    write_job(tmp_path / "job.pace", job(method="fedprox", settings={"mu": 0.5}))
    text = (tmp_path / "job.pace").read_text()
    (tmp_path / "job.pace").write_text(text.replace("\nmu = 0.5", "\nmu = 0.6"))
    with pytest.raises(OtherJobError, match="changed after it was made"):
        read_job(tmp_path / "job.pace")


def test_a_job_is_made_with_settings_by_a_command(pace: Preloaded, tmp_path: Path) -> None:
    words = ("--features", 9, "--classes", 3, "--participant", "a,b,c")
    how = ("--method", "fedprox:mu=0.1", "--lr", 0.02, "--weight-decay", 0)
    done = pace("new", "job.pace", *words, *how, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.json["method"] == {"name": "fedprox", "mu": 0.1}
    assert (done.json["training"]["rate"], done.json["training"]["decay"]) == (0.02, 0.0)
    assert done.json["training"]["penalty"] == {"kind": "Proximal", "mu": 0.1}
    again = pace("show", "job.pace", cwd=tmp_path)
    assert "fedprox, mu 0.1" in again.out
    assert "rate 0.02, weight decay 0.0" in again.out
    ranked = pace("new", "r.pace", *words, "--method", "pace:rank=2", "--json", cwd=tmp_path)
    assert ranked.json["method"] == {"name": "pace", "rank": 2}
    for group in ("all", "ALL"):
        done = pace("new", "x.pace", *words, "--method", group, cwd=tmp_path)
        assert (done.code, "a group of methods" in done.err) == (2, True)


def test_files_go_through_every_step_where_it_is_allowed(
    pace: Preloaded, own_folder: Path, made: Job
) -> None:
    """Each organisation has the file in its own folder, and says yes in each command."""
    yes = ("--allow", "own_scaled:Scaled")
    server = own_folder / "server"
    sites = write_sites(own_folder, made)
    for place in (*sites, server):
        own_methods.write(place)
    for site in sites:
        refused = pace(*FIT, f"{site.name}.up", cwd=site)
        assert refused.code == 2
        assert "--allow own_scaled:Scaled" in " ".join(refused.err.split())
        assert not own_methods.imported(site)
        good(pace(*FIT, f"{site.name}.up", *yes, cwd=site))
        assert own_methods.imported(site)
        shutil.copy(site / f"{site.name}.up", server / "inbox")
    assert pace(*MERGE, cwd=server).code == 2
    assert not own_methods.imported(server)
    good(pace("--allow", "own_scaled:Scaled", *MERGE, cwd=server))  # before the command, as well
    with plugins.allowing(yes[1:]):
        uploads = [(server / "inbox" / f"{name}.up").read_bytes() for name in NAMES]
        (first, *_) = steps.merge(uploads, made.federation)
    assert (server / "outbox" / "north.down").read_bytes() == first
    north = sites[0]
    for suffix in (".down", ".roll"):
        shutil.copy(server / "outbox" / f"north{suffix}", north)
    assert pace(*ADOPT, "--return", "north.down", cwd=north).code == 2
    good(pace(*ADOPT, "--return", "north.down", *yes, cwd=north))
    predict = ("client", "predict", "mine.model", "mine.graph", "--out", "p.csv")
    assert pace(*predict, cwd=north).code == 2
    good(pace(*predict, *yes, cwd=north))


def test_a_node_runs_what_its_own_settings_allow(
    own_folder: Path, made: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sites(own_folder, made)
    without = site_node(own_folder, NAMES[0])
    refused = site_steps.answer_message(without, "upload", {"job": made.digest})
    assert refused == {"code": NotAllowedError.code}
    assert 'allow = ["own_scaled:Scaled"] in a Flower node' in capsys.readouterr().err
    assert not own_methods.imported(own_folder)
    agreed = replace(without, allow=("own_scaled:Scaled",))
    reply = site_steps.answer_message(agreed, "upload", {"job": made.digest})
    assert reply["payload"] == steps.fit(clients(3)[0], made.federation)[1]
    with pytest.raises(NotAllowedError):  # the next node in this process has not agreed to it
        plugins.load_code("own_scaled:Scaled", "method")


def test_the_word_in_node_toml_reaches_the_node(own_folder: Path, made: Job) -> None:
    pytest.importorskip("cryptography")
    write_job(own_folder / "job.pace", made)
    with plugins.allowing(["own_scaled:Scaled"]):
        kits.provision(own_folder / "job.pace", "server.example", own_folder / "kits")
    north = own_folder / "kits" / "north"
    write_graph(north / "mine.graph", clients(1)[0])
    refused = [
        line for line in SuperNode.read(north / "node.toml").problems() if "own_scaled" in line
    ]
    assert len(refused) == 1
    settings = (north / "node.toml").read_text()
    (north / "node.toml").write_text('allow = ["own_scaled:Scaled"]\n' + settings)
    found = SuperNode.read(north / "node.toml")
    assert not [line for line in found.problems() if "own_scaled" in line]
    assert found.allow == ("own_scaled:Scaled",)
