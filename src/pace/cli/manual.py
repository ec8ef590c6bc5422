"""Help pages: the same text in a terminal and in a pipe, and examples that can be pasted.

A page is plain data first, so that `docs/command-line.md` is made of the very same. Examples are the
lines of a command's docstring that begin with `pace `; what follows them is a note.
"""

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from pace.io import WIDTH

INDENT = 2
NARROWEST = 40  # columns of a page
NAMES = 26  # columns, at most, for what is left of an explanation
OWN = ("Arguments", "Options")  # sections of a command itself, not of those below it
GLUE = "\u00a0"  # a space that no line ends at


@dataclass(frozen=True)
class Page:
    """What one `--help` says."""

    command: str
    usage: str
    about: list[str]  # paragraphs
    sections: dict[str, list[tuple[str, str]]]  # title -> names and their explanations
    examples: list[str]  # commands
    notes: list[str]  # paragraphs


class Command(TyperCommand):
    """A command that shows its help in our layout."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(text(page(self, ctx)))


class Group(TyperGroup):
    """A group of commands, shown the same way; without a command it shows its help."""

    format_help = Command.format_help

    def overview(self) -> Iterator[tuple[str, str, str]]:
        """The title, the name and the sentence of each command."""
        for name, command in self.commands.items():
            yield "Commands", name, first(command.help)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)  # in colour
            raise typer.Exit(2)
        return super().parse_args(ctx, args)


def page(command: Any, ctx: Any) -> Page:
    """The page of a command, from its parameters, its docstring and its epilog."""
    shown = [param for param in command.get_params(ctx) if not getattr(param, "hidden", False)]
    arguments = [param for param in shown if param.param_type_name == "argument"]
    options = [param for param in shown if param.param_type_name == "option"]
    pieces = [ctx.command_path, *map(placed, arguments)]
    pieces += [f"{max(o.opts, key=len)} {value(o)}" for o in options if o.required]
    about, examples, notes = parts(f"{command.help or ''}\n\n{command.epilog or ''}")
    sections: dict[str, list[tuple[str, str]]] = {}
    if isinstance(command, Group):
        pieces.append("COMMAND ...")
        for title, name, sentence in command.overview():
            sections.setdefault(title, []).append((name, sentence))
        examples = examples or [parts(c.help or "")[1][0] for c in command.commands.values()]
    else:
        pieces.append("[OPTIONS]")
    hints: dict[str, Any] = {}
    if any(argument.help is None for argument in arguments):  # an older Typer with a newer click
        hints = get_type_hints(command.callback, include_extras=True)
    sections[OWN[0]] = [
        (placed(a), a.help or hints[a.name].__metadata__[0].help) for a in arguments
    ]
    sections[OWN[1]] = [(f"{o.opts[0]} {value(o)}".strip(), explanation(o)) for o in options]
    filled = {title: rows for title, rows in sections.items() if rows}
    return Page(ctx.command_path, " ".join(pieces), about, filled, examples, notes=notes)


def placed(argument: Any) -> str:
    """`JOB`, `[UPLOADS]...`: an argument as the usage has it."""
    name = (argument.metavar or argument.name).upper()
    return (name if argument.required else f"[{name}]") + ("" if argument.nargs == 1 else "...")


def value(option: Any) -> str:
    """What follows an option: nothing after a flag."""
    return "" if option.is_flag else str(option.metavar or max(option.opts, key=len)[2:].upper())


def explanation(option: Any) -> str:
    """The explanation of an option, and its default."""
    about, default = option.help or "", option.default
    if option.required:
        return f"{about} (required)"
    if not default or option.is_flag or not isinstance(default, str | int | float | Path):
        return about
    plain = f"{default:g}" if isinstance(default, float) else default
    return f"{about} [default:{GLUE}{plain}]"


def first(about: str | None) -> str:
    """The first paragraph, on one line."""
    return " ".join(inspect.cleandoc(about or "").partition("\n\n")[0].split())


def parts(about: str) -> tuple[list[str], list[str], list[str]]:
    """The paragraphs before the examples, the commands, and the paragraphs after them."""
    before: list[str] = []
    examples: list[str] = []
    after: list[str] = []
    for paragraph in inspect.cleandoc(about).split("\n\n"):
        lines = [line.strip() for line in paragraph.splitlines()]
        kept = "\n".join(line for line in lines if line not in ("", "Example:", "Examples:"))
        if kept.startswith("pace "):
            examples += [" ".join(command.split()) for command in re.split(r"\n(?=pace )", kept)]
        elif kept:
            (after if examples else before).append(" ".join(kept.split()))
    return before, examples, after


def text(page: Page) -> str:
    """The page for people; `typer.echo` takes the colours away where they do not belong."""
    width = min(max(shutil.get_terminal_size((WIDTH, 24)).columns, NARROWEST), WIDTH)
    indent = " " * len("Usage: ")
    usage = textwrap.wrap(page.usage, width - len(indent), subsequent_indent=indent)
    lines = [f"{heading('Usage')} {usage[0]}", *usage[1:]]
    for paragraph in page.about:
        lines += ["", *textwrap.wrap(paragraph, width)]
    below = [name for title, rows in page.sections.items() if title not in OWN for name, _ in rows]
    for title, rows in page.sections.items():
        names = [name for name, _ in rows] if title in OWN else below
        lines += ["", heading(title), *columns(rows, width, max(map(len, names)))]
    if page.examples:
        lines += ["", heading("Examples" if len(page.examples) > 1 else "Example")]
        lines += [line for example in page.examples for line in broken(example, width)]
    for note in page.notes:
        lines += ["", *textwrap.wrap(note, width)]
    return "\n".join(lines).replace(GLUE, " ") + "\n"


def columns(rows: list[tuple[str, str]], width: int, longest: int) -> list[str]:
    """Names on the left, explanations on the right; a long name has a line to itself."""
    left = min(longest, NAMES) + INDENT
    indent = " " * (INDENT + left)
    lines = []
    for name, about in rows:
        wrapped = textwrap.wrap(about, width, initial_indent=indent, subsequent_indent=indent)
        shown = " " * INDENT + typer.style(name, fg="cyan")
        if len(name) > left - INDENT or not wrapped:
            lines += [shown, *wrapped]
        else:
            lines += [shown + " " * (left - len(name)) + wrapped[0].lstrip(), *wrapped[1:]]
    return lines


def broken(command: str, width: int) -> list[str]:
    """A command as it can be pasted: lines end in a backslash, options stay with their values."""
    lines: list[str] = []
    line = " " * INDENT
    for piece in command.replace(" --", "\n--").split("\n"):
        if len(line) + len(piece) + 2 > width and line.strip():
            lines.append(line.rstrip() + " \\")
            line = " " * (INDENT + 4)
        line += piece + " "
    return [*lines, line.rstrip()]


def heading(title: str) -> str:
    return typer.style(f"{title}:", bold=True)
