"""Every example runs, as a user would run it."""

import subprocess
import sys
from pathlib import Path

import pace

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_quickstart_runs() -> None:
    command = [sys.executable, str(EXAMPLES / "quickstart.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    assert all("alpha" in line and "test accuracy" in line for line in lines)


def test_a_network_of_ones_own_runs() -> None:
    command = [sys.executable, str(EXAMPLES / "own_model.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, *clients = done.stdout.splitlines()
    assert first == "averaged: first.bias, second.bias, norm.weight, norm.bias"
    assert len(clients) == 3
    assert all("alpha" in line and "test accuracy" in line for line in clients)


def test_the_hospitals_ask_for_a_folder() -> None:
    command = [sys.executable, str(EXAMPLES / "hospitals.py")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "usage: hospitals.py FOLDER\n")


def test_the_public_names_exist() -> None:
    for name in pace.__all__:
        assert getattr(pace, name) is not None
    listed = {name for names in pace._HOMES.values() for name in names}
    assert listed == set(pace.__all__) - {"__version__"}
