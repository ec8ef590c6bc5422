"""How commands speak: as the terminal does, or in one JSON object on stdout and nothing else there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import typer

from pace.io.terminal import console, facts, live, many, progress, table
from pace.io.text import shown

__all__ = ["console", "facts", "live", "many", "one_object", "progress", "say", "table"]


def say(line: object, *, err: bool = False) -> None:
    """One line on stdout, or on stderr; names in it do nothing to the terminal."""
    typer.echo(shown(line), err=err)


def one_object(found: Mapping[str, Any]) -> None:
    print(json.dumps(found))
