"""The doctor finds what is broken, forgives what is optional, and leaves nothing behind."""

import json
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from typer.testing import CliRunner

from pace.cli import app, doctor
from pace.cli.doctor import BROKEN, OK, OPTIONAL, Finding
from pace.datasets.benchmarks import BENCHMARKS


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, which does not exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PACE_DATA", raising=False)
    return tmp_path


def states(findings: Iterator[Finding]) -> dict[str, str]:
    return {each.about: each.state for each in findings}


def test_this_machine_is_well_and_nothing_is_left_behind(elsewhere: Path) -> None:
    sections = doctor.examine()
    assert BROKEN not in {each.state for lines in sections.values() for each in lines}, sections
    assert list(sections) == ["Versions", "Extras", "Machine", "Data", "Checks"]
    named = {each.about for each in sections["Versions"]}
    assert {"python", "pace-fgl", "torch", "cryptography", "numpy", "scipy"} <= named
    assert {"jinja2", "safetensors"} <= named
    assert [each.about for each in sections["Checks"]] == ["fit, merge, adopt"]
    assert not (elsewhere / "cache" / "pace").exists()


def test_the_federation_it_tries_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(doctor.federation()) == {"fit, merge, adopt": OK}
    monkeypatch.setattr("pace.protocol.merge", lambda uploads, federation: [b""] * len(uploads))
    with pytest.raises(Exception, match=r"\w"):
        list(doctor.federation())
    checks = doctor.examine()["Checks"]
    assert [(each.about, each.state) for each in checks] == [("checks", BROKEN)]


def asked(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: list(lines))


def test_what_is_needed_must_be_there_and_import(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch, "numpy>=1.26", "torch>=99", "no-such-library>=2", 'x>=1; extra == "dev"')
    found = {each.about: each for each in doctor.versions()}
    assert found["numpy"].state == OK
    assert (found["torch"].state, found["torch"].do) == (BROKEN, "pip install 'torch>=99'")
    assert found["no-such-library"].found == "missing"
    monkeypatch.setattr(doctor, "import_module", lambda name: import_module(f"no_{name}"))
    assert states(doctor.versions())["numpy"] == BROKEN


def test_an_extra_may_be_missing_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(
        monkeypatch,
        'numpy>=1; extra == "here"',
        "no-such-library>=2 ; extra == 'gone'",
        'pytest>=1; extra == "dev"',
    )
    here, gone = doctor.extras()
    assert (here.about, here.state) == ("here", OK)
    assert gone == Finding(
        "gone", "no-such-library missing", OPTIONAL, "pip install 'pace-fgl[gone]'"
    )


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("2.13.0+cpu", ">=2.6", True),
        ("2.5.9", ">=2.6", False),
        ("1.42.1", ">=1.41,<1.43", True),
        ("1.43.0", "<1.43,>=1.41", False),
        ("1", "", True),
        (None, "", False),
    ],
)
def test_versions_are_compared_by_their_numbers(
    version: str | None, wanted: str, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "installed", lambda names: {"x": version} if version else {})
    assert doctor.found_version(Requirement(f"x{wanted}")) == (version or "missing", fits)


def test_datasets_are_found_where_they_are_looked_for(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = elsewhere / "data"
    cora = BENCHMARKS["cora"]
    (root / cora.home).mkdir(parents=True)
    for name in cora.files:
        (root / cora.home / name).touch()
    monkeypatch.setenv("PACE_DATA", str(root))
    found = {each.about: each for each in doctor.data()}
    assert found["found"].found == "synthetic, synthetic-clash, cora"
    assert "citeseer" in found["not found"].found
    assert found["not found"].state == OPTIONAL
    monkeypatch.setenv("PACE_DATA", str(root / "absent"))
    assert states(doctor.data()) == {"PACE_DATA": BROKEN}


def run(monkeypatch: pytest.MonkeyPatch, *words: str, state: str) -> Any:
    monkeypatch.setenv("COLUMNS", "80")
    long = Finding("a name", "found in /" + "a-long-folder/" * 20, state, "do this " * 30)
    monkeypatch.setattr(doctor, "examine", lambda: {"Checks": [long]})
    return CliRunner().invoke(app, ["doctor", *words])


@pytest.mark.parametrize(("state", "code"), [(OK, 0), (OPTIONAL, 0), (BROKEN, 1)])
def test_only_what_is_broken_fails(state: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run(monkeypatch, state=state)
    assert shown.exit_code == code
    assert max(map(len, shown.stdout.splitlines())) <= 80
    told = run(monkeypatch, "--json", state=state)
    assert told.exit_code == code
    found = json.loads(told.stdout)
    assert found["healthy"] is (code == 0)
    assert found["checks"]["a name"]["state"] == state
