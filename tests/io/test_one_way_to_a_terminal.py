"""Text reaches a terminal by one function: the source is read for other ways."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pace
import pace_network

SOURCE = Path(pace.__file__).parent
WRITERS = {
    "io/terminal.py",  # `say` and `answer`, through `shown` and ASCII JSON
    "cli/manual.py",  # the help: our own words, in colour
    "pace_network/exchange.py",  # a node's log, through `shown`
}
WAYS = {
    "print", "typer.echo", "typer.secho", "click.echo", "click.secho", "rich.print",
    "sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer.write", "sys.stderr.buffer.write",
    "sys.stdout.writelines", "sys.stderr.writelines", "traceback.print_exc",
    "traceback.print_exception", "warnings.warn",
}  # fmt: skip
QUESTIONS = {"typer.confirm", "typer.prompt", "input"}
CONSOLES = {"Console", "rich.console.Console", "rich.get_console"}


def called(path: Path) -> list[tuple[str, ast.Call]]:
    """Every call with the name it is made by."""
    tree = ast.parse(path.read_text())
    calls = (each for each in ast.walk(tree) if isinstance(each, ast.Call))
    return [(ast.unparse(each.func), each) for each in calls]


NETWORK = Path(pace_network.__file__).parent
MODULES = {str(path.relative_to(SOURCE)): path for path in sorted(SOURCE.rglob("*.py"))}
MODULES |= {str(path.relative_to(NETWORK.parent)): path for path in sorted(NETWORK.rglob("*.py"))}


@pytest.mark.fault(41)
def test_nobody_else_writes_to_a_terminal() -> None:
    found = {
        name for name, path in MODULES.items() for function, _ in called(path) if function in WAYS
    }
    assert found == WRITERS


@pytest.mark.fault(41)
def test_consoles_are_made_in_one_place() -> None:
    """`pace.io.terminal.console` makes those whose `print` shows text inertly."""
    places = {
        name
        for name, path in MODULES.items()
        for function, _ in called(path)
        if function in CONSOLES
    }
    assert not places, "Inert is the only console"


@pytest.mark.fault(41)
def test_questions_are_shown_inertly() -> None:
    asked = [
        call
        for path in MODULES.values()
        for function, call in called(path)
        if function in QUESTIONS
    ]
    assert asked
    for call in asked:
        assert ast.unparse(call.args[0]).startswith("shown("), ast.unparse(call)
