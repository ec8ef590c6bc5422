"""Long work says how far it is, and stops when it is told to."""

import signal
import subprocess
import sys
import time

import pytest

from pace.io import terminal

PRODUCT = """
import sys
from pace import cli

def product():
    import torch
    torch.set_num_threads(1)
    matrix = torch.rand(4000, 4000)
    sys.stderr.write("begun\\n")
    sys.stderr.flush()
    torch.linalg.eigh(matrix)  # minutes, in one call

cli.app = lambda **named: product()
cli.program()
"""


def test_ctrl_c_is_answered_inside_one_long_product() -> None:
    running = subprocess.Popen([sys.executable, "-c", PRODUCT], stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    assert running.stderr.readline() == "begun\n"
    time.sleep(0.2)
    began = time.monotonic()
    running.send_signal(signal.SIGINT)
    _, words = running.communicate(timeout=60)
    assert time.monotonic() - began < 5  # two seconds, on a machine with other work
    assert running.returncode == 130
    assert words.startswith("pace: interrupted; every file is whole or absent")


def test_in_a_pipe_a_step_is_a_line_unless_it_is_quick(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    with terminal.progress(3, "Training") as step:
        step("seed 0")
        assert capsys.readouterr().err == ""
        now[0] = 30.0
        step("seed 1")
        step("seed 2")
    assert capsys.readouterr().err == "Training: seed 1, 2 of 3 after 30 s\n"
    with terminal.progress(None, "Training") as step:
        now[0] = 50.0
        step(1)
    assert capsys.readouterr().err == "Training, 1 after 20 s\n"
