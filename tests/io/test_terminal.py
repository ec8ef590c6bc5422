"""What people see: on a terminal, in a pipe, with long names and with many columns."""

import re
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as some
from rich.console import Console

from pace.io import terminal
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
        terminal.table("A title", HEADS, ROWS, to)
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


def shown(rows: list[list[str]], heads: list[str], width: int = 80, words: int = 1) -> list[str]:
    to = Console(file=StringIO(), width=width, color_system=None, highlight=False, markup=False)
    with to.capture() as caught:
        terminal.table("", heads, rows, to, words)
    return caught.get().splitlines()


WORD = some.text("abcdefgh-", min_size=1, max_size=60)
NUMBER = some.integers(0, 10**12).map(lambda number: f"{number:,}")


@given(some.lists(some.tuples(WORD, *[NUMBER] * 5, WORD), min_size=1, max_size=4))
def test_every_table_fits_and_no_number_is_broken(rows: list[tuple[str, ...]]) -> None:
    lines = shown([list(row) for row in rows], ["Name", *"abcde", "What"])
    assert max(map(len, lines)) <= 80
    words = " ".join(lines).split()
    for row in rows:
        for number in row[1:-1]:
            assert number in words
    letters = sorted("".join(row[-1] for row in rows))
    assert len(re.findall(r"[abcdefgh-]", "".join(lines))) >= len(letters)  # folded, never cut


def test_columns_that_do_not_fit_go_below_with_the_first() -> None:
    heads = ["", *(f"dataset {number}" for number in range(9))]
    lines = shown([["PACE", *["80.50±0.42"] * 9]], heads, words=0)
    assert max(map(len, lines)) <= 80
    assert sum("PACE" in line for line in lines) == 2
    assert sum(line.count("80.50±0.42") for line in lines) == 9


def test_forty_clients_and_long_names_fit() -> None:
    from pace.reports.run_result import (
        Alphas,
        MethodSummary,
        ModelSettings,
        RunResult,
        RunSettings,
        ScoreRow,
        Spread,
        Summary,
        Traffic,
    )
    from pace.reports.tables import show

    method, spread = "a-method-with-a-name", Spread(0.8, 0.01)
    alpha = Alphas(0.5, 0.25, (tuple(index / 39 for index in range(40)),) * 2)
    traffic = Traffic(1_762_206, 1_764_321, 1_764_300, 1.0012, 1.0011)
    settings = RunSettings(
        dataset="synthetic:nodes=2000,features=4000,communities=9,classes=6,mixing=0.2,degree=5",
        partition="dirichlet",
        clients=40,
        model=ModelSettings(widths=(4000, 64, 6), dropout=0.5),
        seeds=(1, 2),
        device="cpu",
        data_seed=1,
        epochs=None,
        rank=6,
    )
    rows = [ScoreRow(method, each, *[spread] * 3) for each in ("local", "external", "adopted")]
    methods = {method: MethodSummary(alpha, traffic, {})}
    run = RunResult(settings, Summary(tuple(rows), alpha, traffic, methods), ())
    to = Console(file=StringIO(), width=80, color_system=None, highlight=False, markup=False)
    with to.capture() as caught:
        show(run, to)
    text = caught.get()
    assert max(map(len, text.splitlines())) <= 80
    assert len(re.findall("[▁▂▃▄▅▆▇█·]", text)) == 40  # every client has its bar
    assert text.count("80.00 ± 1.00") == 9
    assert "1,764,321" in text


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
    """In a table, a table that is drawn anew, and a bar; also where a cell has a style."""
    from rich.text import Text

    odd = "a\x1b]0;owned\x07\u202e"
    to = terminal.console()
    with to.capture() as caught:
        terminal.table(odd, [odd, odd], [[odd, Text(odd, "bold")]], to)
        terminal.facts(odd, {odd: odd}, to)
    assert not {"\x07", "\u202e"} & set(caught.get())
    screen = Screen()
    with open(screen.slave, "w", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdout", file)
        monkeypatch.setattr(sys, "stderr", file)
        with terminal.live(odd) as show:
            show([odd], [[odd]])
        with terminal.progress(2, odd) as bar:
            bar(odd)
    assert "\x1b]0;owned" not in screen.text()
