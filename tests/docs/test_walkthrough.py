"""The notebook runs from end to end, and docs/walkthrough.md shows what it makes."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.blocks import ROOT, agree, blocks

NOTEBOOK = ROOT / "examples" / "walkthrough.py"
PAGE = ROOT / "docs" / "walkthrough.md"
PICTURES = ROOT / "docs" / "assets" / "walkthrough"
LIMIT = 300_000  # bytes, all pictures together

MISSING = [name for name in ("marimo", "matplotlib") if importlib.util.find_spec(name) is None]
needs_notebook = pytest.mark.skipif(
    bool(MISSING), reason=f"no {' and '.join(MISSING)}: pip install 'pace-fgl[notebook]'"
)


@needs_notebook
def test_the_notebook_makes_what_the_page_shows(tmp_path: Path) -> None:
    """One run, as a script: what it prints, and the pictures by name and size."""
    done = run(str(NOTEBOOK), "--pictures", str(tmp_path))
    (shown,) = (block.text for block in blocks(PAGE) if block.language == "text")
    assert agree(shown, done, about=True), done
    assert "clash: 6 of 6 keep Local" in done
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == named() == {path.name for path in PICTURES.iterdir()}
    for name in drawn:
        assert size(tmp_path / name) == size(PICTURES / name), f"{name}: draw it again"


@needs_notebook
def test_marimo_finds_no_fault_with_the_notebook() -> None:
    run("-m", "marimo", "check", "--strict", str(NOTEBOOK))


def test_the_pictures_are_small() -> None:
    assert sum(path.stat().st_size for path in PICTURES.iterdir()) < LIMIT


def test_the_page_describes_every_picture_to_who_cannot_see_it() -> None:
    descriptions = re.findall(r"!\[([^\]]*)\]\(assets/walkthrough/", PAGE.read_text())
    assert len(descriptions) == len(named())
    assert all(len(text.split()) >= 6 for text in descriptions)


def run(*words: str) -> str:
    """What python prints, given these words; it must end well."""
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def named() -> set[str]:
    """The pictures that the page shows."""
    return set(re.findall(r"\(assets/walkthrough/([\w.]+)\)", PAGE.read_text()))


def size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG, from its header."""
    header = path.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n", path
    return int.from_bytes(header[16:20]), int.from_bytes(header[20:24])
