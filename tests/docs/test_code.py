"""The code blocks of README.md and docs/ run, page by page, as a reader would run them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import command_page
from tests.blocks import MARKS, PAGES, ROOT, Block, agree, blocks
from tests.preloaded import Preloaded

# What would change the machine, or the very environment that the test runs in.
FORBIDDEN = (
    "pip",
    "pip3",
    "uv",
    "conda",
    "apt",
    "apt-get",
    "sudo",
    "make",
    "git",
    "npm",
    "curl",
    "ssh",
)
COMMAND = re.compile(r"^\s*(pace (?!upload|return)|pip |python |make |flwr |git )\w", re.M)


class Reader:
    """Somebody who goes through a page, block by block, in a folder of their own."""

    def __init__(self, folder: Path, programs: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capture = capture
        self.names: dict[str, Any] = {"__name__": "page"}
        self.environment = os.environ | {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "80",
            "NO_COLOR": "1",
            "PACE_REPOSITORY": str(ROOT),
            "PIP_NO_INDEX": "1",
            "PIP_DRY_RUN": "1",
        }
        self.printed = ""

    def read(self, block: Block, *, slow: bool) -> None:
        if block.mark("needs PACE_DATA") is not None and "PACE_DATA" not in os.environ:
            return
        if block.mark("slow") is not None and not slow:
            return
        if name := block.mark("file"):
            (self.folder / name).write_text(block.text)
        elif (how := block.mark("output")) is not None:
            shown = agree(block.text, self.printed, about=how == "about")
            assert shown, f"{block} shows something else than was printed:\n{self.printed}"
        elif block.runs and block.language == "python":
            self.python(block)
        elif block.runs:
            self.shell(block)

    def python(self, block: Block) -> None:
        self.capture.readouterr()
        lines = "\n" * (block.line - 1)  # a traceback names the page's line
        exec(compile(lines + block.text, str(block.page), "exec"), self.names)
        self.printed = "".join(self.capture.readouterr())

    def shell(self, block: Block) -> None:
        done = subprocess.run(
            ["sh", "-eu"],
            input=block.text,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        slow_step = r"^.* after \d+ s(, about \d+ s left)?\n"
        self.printed = re.sub(slow_step, "", done.stdout, flags=re.M)
        expected = int(block.mark("fails with") or 0)
        assert done.returncode == expected, f"{block} ended with {done.returncode}:\n{done.stdout}"


@pytest.fixture
def reader(
    tmp_path: Path,
    pace: Preloaded,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Reader:
    programs, folder = tmp_path / "bin", tmp_path / "page"
    programs.mkdir()
    folder.mkdir()
    pace.on_path(programs)
    script(programs / "python", f'exec {sys.executable} "$@"')
    for each in FORBIDDEN:
        script(programs / each, f"echo 'no page may run {each} in a test: mark the block'; exit 97")
    monkeypatch.chdir(folder)
    return Reader(folder, programs, capsys)


def script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_the_blocks_of_a_page_run(page: Path, reader: Reader) -> None:
    for block in blocks(page):
        reader.read(block, slow=False)


SLOW = [page for page in PAGES if any(block.mark("slow") for block in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW, ids=[page.stem for page in SLOW])
def test_the_slow_blocks_of_a_page_run(page: Path, reader: Reader) -> None:
    for block in blocks(page):
        reader.read(block, slow=True)


def test_every_mark_is_known_and_says_why() -> None:
    wrong = []
    for block in (block for page in PAGES for block in blocks(page)):
        unknown = [mark for mark in block.marks if not mark.startswith(MARKS)]
        wrong += [f"{block}: no such mark: {mark}" for mark in unknown]
        for kind in ("not run", "slow"):
            reason = block.mark(kind)
            if reason is not None and len(reason.split()) < 3:
                wrong.append(f"{block}: {kind}, but why?")
        test = block.mark("run by")
        if test is not None and block.page.stem not in (ROOT / test).read_text():
            wrong.append(f"{block}: {test} does not name the page")
    assert not wrong


def test_commands_are_in_blocks_that_are_run() -> None:
    """A command in a block of plain text would go unnoticed when it stops working."""
    wrong = []
    for block in (block for page in PAGES for block in blocks(page)):
        quiet = block.mark("output") is not None or block.mark("not run") is not None
        if block.language in ("", "text") and not quiet and COMMAND.search(block.text):
            wrong.append(f"{block}: a command in plain text; call the block sh")
        if block.language in ("bash", "shell", "console", "py"):
            wrong.append(f"{block}: not {block.language} but sh or python, which are run")
    assert not wrong


def pace_commands(text: str) -> list[str]:
    """Every `pace` command of a block of shell, on one line and without its comment."""
    joined = re.sub(r"\\\n\s*", "", text)
    lines = (line.partition(" #")[0] for line in joined.splitlines())
    pieces = (piece.strip() for line in lines for piece in re.split(r"&&|\|\||;|\$\(", line))
    return [piece for piece in pieces if re.match(r"pace [a-z]", piece)]


def test_commands_that_no_page_runs_are_understood() -> None:
    """Where a test runs them elsewhere, or nothing can: they exist, and so do their options."""
    leaves = {page.command: command for page, command in command_page.pages()}
    seen = 0
    for block in (block for page in PAGES for block in blocks(page)):
        if block.language != "sh" or block.runs:
            continue
        for command in pace_commands(block.text):
            words = shlex.split(command)
            depth = max(n for n in range(1, len(words) + 1) if " ".join(words[:n]) in leaves)
            name = " ".join(words[:depth])
            leaves[name].make_context(name, words[depth:])  # parses, and runs nothing
            seen += 1
    assert seen > 40


def test_marks_stand_right_above_a_block() -> None:
    """Otherwise they would do nothing."""
    for page in PAGES:
        text = page.read_text()
        above = [mark for block in blocks(page) for mark in block.marks if mark != "hidden"]
        start = re.compile(rf"^ *<!-- ((?:{'|'.join(MARKS[:-1])})\b.*) -->$", re.M)
        assert start.findall(text) == above, page


def test_a_block_cannot_change_the_environment(reader: Reader) -> None:
    here = Path(__file__)
    for text in ("pip install anything\n", "make test\n"):
        with pytest.raises(AssertionError, match="ended with 97"):
            reader.shell(Block(here, 1, "sh", text, ()))
    reader.shell(Block(here, 1, "sh", 'python -m pip --version && test -z "$(ls)"\n', ()))


def test_what_is_shown_is_compared() -> None:
    assert agree("a\nb  \n", "a\nb\n")
    assert not agree("a\nb\n", "a\nc\n")
    assert not agree("a\n", "a\nb\n")
    assert agree("a\n…\nd", "a\nb\nc\nd\n")
    assert agree("took … s\n", "took 3.1 s\n")
    assert not agree("took … s\n", "took 3\n.1 s\n")
    assert agree("  99.5 ± 0.2 ▄▅", " 100.1 ± 0.4 ▅▄", about=True)
    assert agree("99 % at 12,100 B\n…", "100 % at 12,150 B\nand\nmore\n", about=True)
    assert not agree("86.2 ± 0.2", "82.1 ± 0.2", about=True)
    assert not agree("local 86.2", "pace 86.2", about=True)
