"""The part of docs/command-line.md that lists the commands, made of their help pages.

`python -m tests.command_page` writes it; a test compares.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from pace.cli import app, manual

PAGE = Path(__file__).parent.parent / "docs" / "command-line.md"
START = "## The commands\n\n<!-- From here on it is made by `python -m tests.command_page`. -->\n"
MARK = "<!-- not run: tests/cli/test_cli_help.py parses every example, and runs those that are quick -->"


def pages() -> Iterator[tuple[manual.Page, Any]]:
    """Every command's help and the command itself, groups before what they hold."""

    def walk(command: Any, context: Any) -> Iterator[tuple[manual.Page, Any]]:
        yield manual.page(command, context), command
        for name in getattr(command, "commands", ()):
            each = command.get_command(context, name)
            below = type(context)(each, info_name=name, parent=context)
            yield from walk(each, below)

    top: Any = typer.main.get_command(app)
    yield from walk(top, top.make_context("pace", ["--"], resilient_parsing=True))


def render() -> str:
    return "\n".join(section(page) for page, _ in pages() if page.command != "pace")


def section(page: manual.Page) -> str:
    depth = "#" * (1 + len(page.command.split()))
    lines = [f"{depth} `{page.command}`", "", *"\n\n".join(map(escaped, page.about)).split("\n")]
    lines += ["", f"    {page.usage}"]
    for title, rows in page.sections.items():
        shown = [(name, words) for name, words in rows if name != "--help"]
        if shown and title != "Commands":
            lines += ["", f"| {title.removesuffix('s')} | |", "| --- | --- |"]
            lines += [f"| `{name}` | {escaped(words)} |" for name, words in shown]
    if "Commands" not in page.sections:  # a group's examples and notes are its commands'
        lines += ["", MARK, "```sh"]
        for example in page.examples:
            lines += [line.removeprefix("  ") for line in manual.broken(example, 82)]
        lines += ["```"]
        for note in page.notes:
            lines += ["", escaped(note)]
    return "\n".join(lines) + "\n"


def escaped(words: str) -> str:
    """Markdown of plain words: what is written in backticks stays, the rest means nothing special."""
    parts = re.split(r"(`[^`]*`)", words.replace(manual.GLUE, " "))
    return "".join(
        part if part.startswith("`") else re.sub(r"([*_<|~])", r"\\\1", part) for part in parts
    )


if __name__ == "__main__":
    before = PAGE.read_text().partition(START)[0]
    PAGE.write_text(before + START + "\n" + render())
