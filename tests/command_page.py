"""The part of docs/command-line.md that lists the commands, made of their help pages.

`python -m tests.command_page` writes it; a test compares.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from pace.cli import app, manual

Row = tuple[str, str]  # an argument or option, and its explanation

PAGE = Path(__file__).parent.parent / "docs" / "command-line.md"
START = "## The commands\n\n<!-- From here on it is made by `python -m tests.command_page`. -->\n"
EVERYWHERE = ("--help", "--json")
OFTEN = 3  # commands: what so many explain alike is explained once, at the top


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
    shown = [page for page, _ in pages() if page.command != "pace"]
    counts = Counter(row for page in shown for row in own_rows(page))
    shared = [row for row, count in counts.items() if count >= OFTEN]
    return "\n".join([legend(shared), *(section(page, set(shared)) for page in shown)])


def own_rows(page: manual.Page) -> list[Row]:
    """A command's arguments and options; the usage shows which are required."""
    rows = [row for title in manual.OWN for row in page.sections.get(title, [])]
    return [
        (name, words.removesuffix(" [required]")) for name, words in rows if name not in EVERYWHERE
    ]


def legend(shared: list[Row]) -> str:
    intro = "A usage line shows what a command must be given. What it lists after *Also* is this:"
    return "\n".join([intro, "", *map(item, shared)]) + "\n"


def section(page: manual.Page, shared: set[Row]) -> str:
    depth = "#" * (1 + len(page.command.split()))
    lines = [f"{depth} `{page.command}`", "", *"\n\n".join(map(escaped, page.about)).split("\n")]
    if "Commands" in page.sections:  # a group's examples and notes are its commands'
        return "\n".join(lines) + "\n"
    usage = page.usage.removesuffix("[OPTIONS]").strip()
    lines += ["", *[f"    {page.command} {usage}", ""] * bool(usage)]
    lines += [item(row) for row in own_rows(page) if row not in shared]
    also = [f"`{name.split()[0]}`" for name, words in own_rows(page) if (name, words) in shared]
    lines += [f"- Also {', '.join(also)}."] * bool(also)
    lines += ["", "For example:" if len(page.examples) == 1 else "Examples:", ""]
    lines += [f"  {line}" for example in page.examples for line in manual.broken(example, 82)]
    for note in page.notes:
        lines += ["", escaped(note)]
    return "\n".join(lines) + "\n"


def item(row: Row) -> str:
    return f"- `{row[0]}`: {escaped(row[1])}"


def escaped(words: str) -> str:
    """Markdown of plain words: what is written in backticks stays, the rest means nothing special."""
    parts = re.split(r"(`[^`]*`)", words)
    return "".join(
        part if part.startswith("`") else re.sub(r"([*_<|~])", r"\\\1", part) for part in parts
    )


if __name__ == "__main__":
    before = PAGE.read_text().partition(START)[0]
    PAGE.write_text(before + START + "\n" + render())
