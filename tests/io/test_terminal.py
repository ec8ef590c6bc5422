"""What people see: on a terminal, in a pipe, with long names and with many columns."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from pace.io import terminal
from pace.reports.table import Table, Value
from tests.screen import Screen

ESCAPE = "\x1b["
DRAWN = re.compile("[\u2500-\u257f]")  # boxes and rules
HEADS = ["Name", "Number", "What it is"]
ROWS = [["first", "1,234", "one thing"], ["second", "5", "another"]]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture(params=["terminal", "pipe"])
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[IO[str]]:
    if request.param == "pipe":
        with open(tmp_path / "out", "w", encoding="utf-8") as file:
            yield file
        return
    screen = Screen()
    with open(screen.slave, "w", encoding="utf-8") as file:
        yield file
    screen.text()


def printed() -> str:
    """A table, with the console's own idea of what it writes to."""
    to = terminal.console()
    with to.capture() as caught:
        Table.of("A title", HEADS, ROWS).show(to)
    return caught.get()


@pytest.mark.parametrize("asks", ["", "NO_COLOR", "FORCE_COLOR", "both", "dumb"])
def test_colours_are_for_terminals_and_the_environment_decides(
    stream: IO[str], asks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        if asks in (name, "both"):
            monkeypatch.setenv(name, "1")
    if asks == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    wanted = {"": stream.isatty(), "FORCE_COLOR": True}.get(asks, False)
    assert terminal.coloured(stream) is wanted
    assert (ESCAPE in printed()) is wanted


def test_a_pipe_gets_no_drawing(stream: IO[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    text = printed()
    assert bool(DRAWN.search(text)) is stream.isatty()
    if not stream.isatty():
        assert "---" in text


def test_a_bar_says_nothing_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.progress(2, "Training") as step:
        step("one")
        step("two")
    assert capsys.readouterr() == ("", "")


def test_a_bar_stays_on_one_line_whatever_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setenv("COLUMNS", "80")
    with open(screen.slave, "w", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stderr", file)
        with terminal.progress(2, "Training") as step:
            step("seed 104729: training for " + ", ".join(f"method-{each}" for each in range(30)))
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.text()).replace("\r", "\n").split("\n")
    assert max(map(len, lines)) <= 80
    assert any("seed 104729: training for" in line for line in lines)


@pytest.mark.fault(41)
def test_no_cell_acts_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a table and a bar; also where a cell has a style."""
    odd = "a\x1b]0;owned\x07\u202e"
    to = terminal.console()
    with to.capture() as caught:
        Table.of(odd, [odd, odd], [[odd, Value(odd, mark="best", below=odd)]]).show(to)
        terminal.facts(odd, {odd: odd}, to)
    assert not {"\x07", "\u202e"} & set(caught.get())
    screen = Screen()
    with open(screen.slave, "w", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdout", file)
        monkeypatch.setattr(sys, "stderr", file)
        with terminal.progress(2, odd) as bar:
            bar(odd)
    assert "\x1b]0;owned" not in screen.text()
