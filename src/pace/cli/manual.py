"""Help pages: the same words in a terminal and in a pipe, and examples that can be pasted.

A page is plain data first, so that `docs/command-line.md` is made of the very same.
"""

from __future__ import annotations

import inspect
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from pace.io.terminal import WIDTH

INDENT = 2
LEAST = 40  # columns: a page that is narrower nobody could read
NAMES = 26  # columns, at most, for what stands left of an explanation
OWN = ("Arguments", "Options")  # sections of a command itself, not of those below it
GLUE = "\u00a0"  # a space that no line ends at


@dataclass(frozen=True)
class Page:
    """What one `--help` says."""

    command: str
    usage: str
    about: list[str]  # paragraphs
    sections: dict[str, list[tuple[str, str]]]  # title -> what, and its explanation
    examples: list[str]  # commands
    notes: list[str]  # sentences


class Command(TyperCommand):
    """A command that shows its help in our layout."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(text(page(self, ctx)))


class Group(TyperGroup):
    """A group of commands, shown the same way; without a command it says so by its help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(text(page(self, ctx)))

    def overview(self) -> Iterator[tuple[str, str, str]]:
        """The title, the name and the sentence of each command."""
        for name, command in self.commands.items():
            yield "Commands", name, first(command.help)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)  # our own words, in colour
            raise typer.Exit(2)
        return super().parse_args(ctx, args)


def page(command: Any, ctx: Any) -> Page:
    """The page of a command, from its parameters, its docstring and its epilog."""
    shown = [each for each in command.get_params(ctx) if not getattr(each, "hidden", False)]
    arguments = [each for each in shown if each.param_type_name == "argument"]
    options = [each for each in shown if each.param_type_name == "option"]
    pieces = [ctx.command_path, *(placed(each) for each in arguments)]
    pieces += [f"{long(each)} {value(each)}" for each in options if each.required]
    sections: dict[str, list[tuple[str, str]]] = {}
    if isinstance(command, Group):
        pieces.append("COMMAND ...")
        for title, name, sentence in command.overview():
            sections.setdefault(title, []).append((name, sentence))
    else:
        pieces.append("[OPTIONS]")
    lost = annotated(command) if any(each.help is None for each in arguments) else {}
    sections[OWN[0]] = [(placed(each), each.help or lost.get(each.name, "")) for each in arguments]
    sections[OWN[1]] = [
        (" ".join(filter(None, (each.opts[0], value(each)))), said(each)) for each in options
    ]
    examples, notes = parts(command.epilog or "")
    about = [" ".join(each.split()) for each in inspect.cleandoc(command.help or "").split("\n\n")]
    filled = {title: rows for title, rows in sections.items() if rows}
    return Page(ctx.command_path, " ".join(pieces), about, filled, examples, notes)


def placed(argument: Any) -> str:
    """`JOB`, `[UPLOADS]...`: an argument as the usage has it."""
    name = (argument.metavar or argument.name).upper()
    return (name if argument.required else f"[{name}]") + ("" if argument.nargs == 1 else "...")


def long(option: Any) -> str:
    """The name an option is known by."""
    return str(max(option.opts, key=len))


def value(option: Any) -> str:
    """What follows an option: nothing after a flag."""
    return "" if option.is_flag else str(option.metavar or long(option).strip("-").upper())


def annotated(command: Any) -> dict[str, str]:
    """The explanations in the signature; an older Typer on a newer click loses those of arguments."""
    hints = get_type_hints(command.callback, include_extras=True)
    found = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return {name: about[0].help or "" for name, about in found.items() if about}


def said(option: Any) -> str:
    """The explanation of an option, and what it is if not given."""
    words, default = option.help or "", option.default
    if option.required:
        return f"{words} (required)"
    if not default or option.is_flag or not isinstance(default, str | int | float | Path):
        return words
    plain = f"{default:g}" if isinstance(default, float) else default
    return f"{words} [default:{GLUE}{plain}]"


def first(words: str | None) -> str:
    """The first paragraph, on one line."""
    return " ".join(inspect.cleandoc(words or "").partition("\n\n")[0].split())


def parts(epilog: str) -> tuple[list[str], list[str]]:
    """The example commands of an epilog, and its sentences."""
    examples, notes = [], []
    for paragraph in inspect.cleandoc(epilog).split("\n\n"):
        line = " ".join(paragraph.split())
        if line.startswith("pace "):
            examples.append(line)
        elif line and line not in ("Example:", "Examples:"):
            notes.append(line)
    return examples, notes


def text(found: Page) -> str:
    """The page for people; `typer.echo` takes the colours away where they do not belong."""
    width = min(max(shutil.get_terminal_size((WIDTH, 24)).columns, LEAST), WIDTH)
    lines = [f"{heading('Usage')} {line}" for line in usage(found.usage, width)[:1]]
    lines += usage(found.usage, width)[1:]
    for paragraph in found.about:
        lines += ["", *textwrap.wrap(paragraph, width)]
    commands = [
        name for title, rows in found.sections.items() if title not in OWN for name, _ in rows
    ]
    for title, rows in found.sections.items():
        names = [name for name, _ in rows] if title in OWN else commands
        lines += ["", heading(title), *columns(rows, width, max(map(len, names)))]
    if found.examples:
        lines += ["", heading("Examples" if len(found.examples) > 1 else "Example")]
        for example in found.examples:
            lines += broken(example, width)
    for note in found.notes:
        lines += ["", *textwrap.wrap(note, width)]
    return "\n".join(lines).replace(GLUE, " ") + "\n"


def usage(words: str, width: int) -> list[str]:
    return textwrap.wrap(words, width - len("Usage: "), subsequent_indent=" " * len("Usage: "))


def columns(rows: list[tuple[str, str]], width: int, longest: int) -> list[str]:
    """Names on the left, explanations on the right; a long name has a line of its own."""
    left = min(longest, NAMES) + INDENT
    lines = []
    for name, words in rows:
        indent = " " * (INDENT + left)
        wrapped = textwrap.wrap(words, width, initial_indent=indent, subsequent_indent=indent)
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


def heading(words: str) -> str:
    return typer.style(f"{words}:", bold=True)
