"""How commands speak: as the terminal does, or in one JSON object on stdout and nothing else there."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from pace.io import console, facts, live, many, progress, shown

__all__ = ["answer", "console", "facts", "live", "many", "one_object", "progress", "say", "table"]


def say(line: object, *, err: bool = False) -> None:
    """One line on stdout, or on stderr; names in it do nothing to the terminal."""
    typer.echo(shown(line), err=err)


def one_object(content: Mapping[str, Any]) -> None:
    print(json.dumps(content))


def answer(content: Mapping[str, Any], *lines: str, as_json: bool) -> None:
    """What a command has done: one JSON object, or these lines."""
    if as_json:
        one_object(content)
        return
    for line in lines:
        say(line)


def table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], to: Any, **settings: Any
) -> None:
    """Print a table of text; see `Table.of`."""
    from pace.reports import Table

    Table.of(title, heads, rows, **settings).show(to)
