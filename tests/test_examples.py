"""Every example runs, as a user would run it."""

import subprocess
import sys
from pathlib import Path

import pace

EXAMPLES = Path(__file__).parent.parent / "examples"
README = Path(__file__).parent.parent / "README.md"


def test_the_quickstart_runs() -> None:
    command = [sys.executable, str(EXAMPLES / "quickstart.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    assert all("alpha" in line and "test accuracy" in line for line in lines)


def test_the_public_names_exist() -> None:
    for name in pace.__all__:
        assert getattr(pace, name) is not None
    assert set(pace._HOME) == set(pace.__all__) - {"__version__"}
