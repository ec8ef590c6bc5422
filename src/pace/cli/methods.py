"""`pace methods`: what can be named after `--methods`, with its settings."""

from __future__ import annotations

from typing import Annotated

import typer

from pace.cli.given import METHODS, As_json, words

EXAMPLES = """
Examples:

  pace methods

  pace methods fedprox pace-duo

  pace methods --json

A method of your own is a class in a file: `pace methods package.module:Name` shows it, `pace run
--methods package.module:Name` runs it. A package lists its methods as entry points of the group
pace.methods.
"""


def methods(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Only these, with their settings; all of them if none is named.",
            autocompletion=words(*METHODS),
        ),
    ] = None,
    as_json: As_json = False,
) -> None:
    """List the methods, built in and of installed packages: a sentence and the settings of each."""
    from pace.cli import console, options
    from pace.methods import GROUPS
    from pace.methods.about import about, everything

    chosen = [each for name in names or () for each in options.allowed_methods(name)]
    listed = [about(name) for name in chosen] if names else everything()
    if as_json:
        console.one_object({"methods": [each.plain() for each in listed]})
        return
    to = console.console()
    if names:
        for each in listed:
            console.facts(each.name, each.facts(), to)
        return
    heads = ["Method", "Upload", "Sealed", "What it is"]
    console.table("", heads, [each.row for each in listed], to)
    to.print("Upload is the share of a dense model, for the paper's on Cora.")
    for name, members in GROUPS.items():
        to.print(f"{name}: {', '.join(members)}")
