"""Methods by name: their settings in words, code of one's own, installed packages."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pace.errors import NotAllowedError, SettingError
from pace.io import plugins
from pace.methods import METHODS, FedProx, Pace, PaceRidge, make
from pace.methods.about import about_method, every_method
from pace.models import GCN
from pace.protocol import Federation
from pace.protocol.method import Summable
from pace_study.baselines.fedrcl import FedRCL
from tests import own_methods
from tests.preloaded import Preloaded


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("fedprox:mu=0.1", FedProx(mu=0.1)),
        ("FedProx: mu = 1e-1 ", FedProx(mu=0.1)),
        ("fedrcl:levels=0/1,contrast=2", FedRCL(levels=(0, 1), contrast=2.0)),
        ("fedrcl:levels=none", FedRCL()),
        ("pace:rank=3", Pace(rank=3)),
        ("pace:rank=dense", Pace(rank=None)),
        ("pace", Pace(rank=4)),
        ("pace-ridge:hops=2,own=none", PaceRidge(hops=(2,), own=None)),
    ],
)
def test_settings_have_the_types_of_the_fields(text: str, method: object) -> None:
    assert make(text, rank=4) == method


def test_one_setting_has_one_spelling() -> None:
    assert (
        METHODS.expand("fedprox:mu=1e-1")
        == METHODS.expand("FEDPROX:mu=0.10")
        == ("fedprox:mu=0.1",)
    )
    assert METHODS.expand("fedrcl:levels=0/1,contrast=2") == ("fedrcl:levels=0/1,contrast=2.0",)
    assert make(METHODS.expand("pace:rank=dense")[0]) == Pace(rank=None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fedprox:mew=1", r"fedprox has no setting 'mew'.*mu \(a number, 0.001\)"),
        ("fedgta:treshold=1", "did you mean 'threshold'"),
        ("fedprox:mu=much", "fedprox's mu is 'much', expected a number"),
        ("fedprox:mu=nan", "expected a number"),
        ("fedprox:mu=-1", "mu is -1.0, expected 0 or more"),
        ("fedtad:rounds=2.5", "rounds is '2.5', expected a whole number"),
        ("fedrcl:levels=a", "expected a whole number, or several with / between or none"),
        ("pace:rank=0", "rank is 0, expected 1 or more"),
        ("pace:gate=0.5", "cannot be said in words"),
        ("fedprox:mu", "settings are written fedprox:key=value"),
        ("fedprox:mu=", "expected key=value"),
        ("fedprox:mu=1,mu=2", "sets mu twice"),
        ("fedprx:mu=1", "did you mean 'fedprox'"),
        ("local:a=1", "its settings are: none"),
        ("a b:C", "expected package.module:Name"),
        ("../x:C", "expected package.module:Name"),
    ],
)
def test_what_does_not_fit_is_said_with_what_would(text: str, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        make(text)


def test_nothing_is_imported_before_it_is_allowed(own_folder: Path) -> None:
    name = own_methods.write(own_folder)
    with pytest.raises(NotAllowedError, match=f"would run here.*--allow {name}"):
        make(name)
    with plugins.allowing(["own_scaled:Told"]), pytest.raises(NotAllowedError):  # another name
        make(name)
    assert not own_methods.imported(own_folder)
    with plugins.allowing([name]):
        method = make(f"{name}:part=0.25,rounds_off=true,levels=1/2")
    assert own_methods.imported(own_folder)
    assert [getattr(method, each) for each in ("part", "rounds_off", "levels")] == [
        0.25,
        True,
        (1, 2),
    ]
    with pytest.raises(NotAllowedError):  # outside the block it is as before
        make(name)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("own_scaled:Scald", "there is no 'Scald' in .*own_scaled.py: did you mean 'Scaled'"),
        ("own_scaled:NOTHING", "is a int, expected a method's class or function"),
        ("own_scaled:Unlike", "makes a Unlike, expected a frozen dataclass that inherits"),
        ("own_scaled:Told:part=-1", "cannot be made: a part is 0 or more"),
        ("own_scaled:Scaled:rounds_off=maybe", "'maybe', expected true or false"),
        ("own_scaled:Asking", "needs part, amount: give them"),
        ("nowhere_at_all:C", "cannot be imported.*install it here"),
        ("own_broken:C", r"cannot be imported \(ZeroDivisionError"),
    ],
)
def test_code_that_is_no_method_is_refused_in_a_sentence(
    own_folder: Path, name: str, says: str
) -> None:
    own_methods.write(own_folder)
    (own_folder / "own_broken.py").write_text("1 / 0\n")
    with plugins.allowing([":".join(name.split(":")[:2])]), pytest.raises(SettingError, match=says):
        make(name)


def test_an_installed_package_names_its_methods_without_being_imported(own_folder: Path) -> None:
    name = own_methods.write(own_folder)
    own_methods.install(own_folder, Scaled=name)
    assert METHODS.code("scaled") == name
    assert METHODS.code("pace") is None
    assert METHODS.expand("scaled") == ("scaled",)
    with pytest.raises(NotAllowedError, match=f"--allow {name}"):
        make("scaled")
    with pytest.raises(SettingError, match="did you mean 'scaled'"):
        make("scald")
    assert not own_methods.imported(own_folder)


def test_two_packages_that_claim_a_name_are_both_shown(own_folder: Path) -> None:
    own_methods.install(own_folder, "one", scaled="one:A")
    own_methods.install(own_folder, "two", scaled="two:B")
    with pytest.raises(SettingError, match=re.escape("one:A of one 1.2 and two:B of two 1.2")):
        make("scaled")


def test_the_list_has_a_sentence_and_the_settings_of_every_method(own_folder: Path) -> None:
    name = own_methods.write(own_folder)
    own_methods.install(own_folder, scaled=name, pace="own_scaled:Told", broken="own_scaled:Nobody")
    found = {
        each.name: each for each in every_method() if each.name in METHODS and not each.problem
    }
    assert list(found) == list(METHODS)
    for each in found.values():
        assert re.fullmatch(r"[A-Z].{20,}\.", each.sentence), each.sentence
        assert "=" not in each.sentence.split("(")[0], each.sentence  # words, no formula
        made = make(each.name)
        assert each.sums == (isinstance(made, Summable) and not made.needs)
    assert "mu (a number, 0.001)" in found["fedprox"].facts()["settings"]
    assert found["pace-half"].sentence == "As Pace, with gate Fixed(alpha=0.5)."
    assert found["pace-half"].row[-1].endswith("From pace-study.")
    others = {each.name: each for each in every_method() if each.origin.startswith("own_scaled")}
    assert others["scaled"].sentence == "A part of the plain mean."
    assert others["scaled"].origin == "own_scaled:Scaled of own_scaled 1.2"
    assert "built in: name this one by own_scaled:Told" in others["pace"].problem
    assert "there is no 'Nobody'" in others["broken"].problem


def test_sizes_are_those_of_messages_in_bytes(own_folder: Path) -> None:
    """PACE's row of the paper: 11.9% up, 10.3% down on Cora."""
    paper, smaller = about_method("pace"), about_method("pace:rank=3")
    assert paper.upload
    assert paper.dense == 4 * (1433 * 64 + 64 + 64 * 7 + 7)
    assert round(100 * paper.upload / paper.dense, 1) == 11.9
    assert smaller.upload
    assert smaller.upload < paper.upload
    sizes = {"upload": paper.upload, "returned": paper.returned, "dense": paper.dense}
    assert sizes.items() <= vars(paper).items()


def test_a_file_in_the_folder_runs_from_the_command_line(pace: Preloaded, tmp_path: Path) -> None:
    name = own_methods.write(tmp_path)
    shown = pace("methods", name, cwd=tmp_path)
    assert "A part of the plain mean." in shown.out
    assert "own_scaled.py" in "".join(shown.out.split())  # whatever the width
    words = ("--methods", f"local,{name}:part=1.0,{name}", "--seeds", 1, "--epochs", 2, "--lr", 0.5)
    done = pace("run", *words, "--weight-decay", 0, "--dropout", 0.1, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert list(dict.fromkeys(r["method"] for r in done.json["results"])) == [
        "local",
        f"{name}:part=1.0",
        name,
    ]
    told = done.json["settings"][f"{name}:part=1.0"]
    assert told["method"]["part"] == 1.0
    assert (told["recipe"]["rate"], told["recipe"]["decay"]) == (0.5, 0.0)
    assert told["model"]["dropout"] == 0.1


def test_a_mistake_in_somebodys_own_code_is_called_theirs(pace: Preloaded, tmp_path: Path) -> None:
    broken = own_methods.SOURCE.replace("return local\n", "return local[0]\n")
    (tmp_path / "own_scaled.py").write_text(broken)
    words = ("--methods", "own_scaled:Scaled", "--seeds", 1, "--epochs", 0)
    done = pace("run", *words, cwd=tmp_path)
    assert done.code == 2
    assert "KeyError" in done.err
    assert "this is a mistake in own_scaled, not in pace" in done.err


def test_an_installed_method_runs_from_the_command_line(tmp_path: Path) -> None:
    """A process of its own, since packages are looked for where it starts."""
    own_methods.install(tmp_path, scaled=own_methods.write(tmp_path))
    code = "import sys; from pace.cli import main; sys.argv[0] = 'pace'; main()"
    here = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    words = ["run", "--methods", "scaled:part=1", "--seeds", "1", "--epochs", "1", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=here, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert list(dict.fromkeys(r["method"] for r in json.loads(done.stdout)["results"])) == [
        "scaled:part=1.0"
    ]


def test_another_version_of_a_methods_arithmetic_is_another_federation() -> None:
    """Equal settings that no longer give equal results may not meet in one merge."""
    model, digests = GCN((5, 4, 2)), set()
    for version in (1, 2, 3):
        renewed = type("Pace", (Pace,), {"version": version})
        digests.add(Federation(model, renewed()).digest)
    assert len(digests) == 3
    assert Federation(model, Pace()).digest in digests
