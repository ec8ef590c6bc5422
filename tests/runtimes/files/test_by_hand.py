"""The example of three sites, and the page about it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.preloaded import Preloaded

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "by_hand.sh"
PAGE = ROOT / "docs" / "site.md"


def run(folder: Path, path: Path) -> subprocess.CompletedProcess[str]:
    places = os.pathsep.join([str(path), os.environ["PATH"]])
    environment = os.environ | {"PATH": places, "COLUMNS": "80"}
    command = ["sh", str(SCRIPT), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def check(done: subprocess.CompletedProcess[str], root: Path) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    carried = re.findall(r"^carried: (.*)$", done.stdout, re.MULTILINE)
    kinds = sorted({Path(file).suffix for file in carried})
    assert kinds == [".down", ".pace", ".pub", ".roll", ".up"]
    held = {path.name for path in (root / "server").rglob("*") if path.is_file()}
    assert not [name for name in held if name.endswith((".csv", ".graph", ".local"))]
    assert not [name for name in held if name.endswith(".key") and name != "server.key"]
    for site in ("north", "south", "west"):
        assert (root / site / "mine.model" / "README.md").is_file()
        assert {path.suffix for path in (root / site).glob("*.key")} == {".key"}
        assert len(list((root / site).glob("*.key"))) == 1
    assert done.stdout.count("What will leave this site") == 3
    assert done.stdout.count("NLL on") == 3
    assert len((root / "west" / "predictions.csv").read_text().splitlines()) == 301
    shown = [line for line in done.stdout.splitlines() if not re.match(r"west-|node,", line)]
    assert max(map(len, shown)) <= 80


def test_the_example_runs(pace: Preloaded, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    pace.on_path(tmp_path / "bin")
    check(run(tmp_path / "root", tmp_path / "bin"), tmp_path / "root")
    again = run(tmp_path / "root", tmp_path / "bin")
    assert again.returncode == 2
    assert "is not empty" in again.stderr


@pytest.mark.slow
def test_the_example_runs_with_the_installed_command(tmp_path: Path) -> None:
    check(run(tmp_path / "root", Path(sys.executable).parent), tmp_path / "root")


def commands(text: str) -> set[str]:
    """Every `pace` command, on one line, for the site called north."""
    joined = re.sub(r"\\\n\s*", "", text)
    found = re.findall(r"^\s*(pace .*)$", joined, re.MULTILINE)
    plain = {re.sub(r"\$(site|party)", "north", line) for line in found}
    return {" ".join(line.split()) for line in plain}


def test_the_page_shows_the_commands_of_the_example() -> None:
    blocks = re.findall(
        r"run by [^\n]*test_by_hand.py[^\n]*\n```sh\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    shown = commands("\n".join(blocks))
    assert len(shown) == 10
    assert shown <= commands(SCRIPT.read_text())
