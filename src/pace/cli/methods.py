"""`pace methods`: what can be named after `--methods`, with its settings."""

from __future__ import annotations

from typing import Annotated

from pace.cli import console, given
from pace.registry import METHODS


def methods(
    names: Annotated[
        list[str] | None,
        given.argument(
            "Only these, with their settings; all of them if none is named.",
            autocompletion=given.words(*METHODS.groups, *METHODS),
        ),
    ] = None,
    as_json: given.As_json = False,
) -> None:
    """List the methods, built in and of installed packages: a sentence and the settings of each.

    Examples:
        pace methods
        pace methods fedprox pace-duo
        pace methods --json

    A method of your own is a class in a file: `pace methods package.module:Name` shows it, `pace run
    --methods package.module:Name` runs it. A package lists its methods as entry points of the group
    pace.methods.
    """
    from pace.methods.about import about_method, every_method

    chosen = [method for name in names or () for method in METHODS.expand(METHODS.allow(name))]
    listed = [about_method(name) for name in chosen] if names else every_method()
    if as_json:
        console.one_object({"methods": [method.plain() for method in listed]})
        return
    to = console.console()
    if names:
        for method in listed:
            console.facts(method.name, method.facts(), to)
        return
    heads = ["Method", "Upload", "Sealed", "What it is"]
    console.table("", heads, [method.row for method in listed], to)
    to.print("Upload is the share of a dense model, for the paper's on Cora.")
    for name, members in METHODS.groups.items():
        to.print(f"{name}: {', '.join(members)}")
