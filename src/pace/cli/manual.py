"""Help pages: the same text in a terminal and in a pipe, and examples that can be pasted.

A page is plain data first, so that `docs/command-line.md` is made of the very same. Examples are the
lines of a command's docstring that begin with `pace `; what follows them is a note.
"""

import inspect
import re
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

OWN = ("Arguments", "Options")  # sections of a command itself, not of those below it
Sections = dict[str, list[tuple[str, str]]]  # title -> names and their explanations


@dataclass(frozen=True)
class Page:
    """What one `--help` says."""

    command: str
    usage: str  # what follows the command
    about: list[str]  # paragraphs
    sections: Sections
    examples: list[str]  # commands
    notes: list[str]  # paragraphs


class Command(TyperCommand):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        found = page(self, ctx)
        formatter.write_usage(found.command, found.usage)
        write_paragraphs(found.about, formatter)
        below = [name for title in found.sections.keys() - OWN for name, _ in found.sections[title]]
        left = max(map(len, below), default=0)
        for title, rows in found.sections.items():
            with formatter.section(typer.style(title, bold=True)):
                width = 0 if title in OWN else left
                named = [(typer.style(name.ljust(width), fg="cyan"), about) for name, about in rows]
                formatter.write_dl(named)
        if found.examples:
            with formatter.section(typer.style("Examples", bold=True)):
                for example in found.examples:
                    formatter.write("\n".join(broken(example, formatter.width)) + "\n")
        write_paragraphs(found.notes, formatter)


class Group(TyperGroup):
    """A group of commands, shown the same way; without a command it shows its help."""

    format_help = Command.format_help

    def overview(self) -> Sections:
        """The name and the sentence of each command, by title."""
        return {"Commands": [(name, parts(c.help)[0][0]) for name, c in self.commands.items()]}

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
    pieces = [*map(placed, arguments)]
    records = [(o.required, *o.get_help_record(ctx)) for o in options]
    pieces += [name for required, name, _ in records if required]
    about, examples, notes = parts(command.help, command.epilog)
    sections: Sections = {}
    if isinstance(command, Group):
        pieces.append("COMMAND ...")
        sections |= command.overview()
        examples = examples or [parts(c.help)[1][0] for c in command.commands.values()]
    else:
        pieces.append("[OPTIONS]")
    hints = getattr(command.callback, "__annotations__", {})
    sections[OWN[0]] = [(placed(a), hints[a.name].__metadata__[0].help) for a in arguments]
    # An older Typer escapes brackets, for rich.
    told = [(name, about.replace("\\[", "[").split()) for _, name, about in records]
    sections[OWN[1]] = [(name, " ".join(words)) for name, words in told]
    filled = {title: rows for title, rows in sections.items() if rows}
    return Page(ctx.command_path, " ".join(pieces), about, filled, examples, notes=notes)


def placed(argument: Any) -> str:
    """`JOB`, `[UPLOADS]...`: an argument as the usage has it."""
    name = (argument.metavar or argument.name).upper()
    return (name if argument.required else f"[{name}]") + ("" if argument.nargs == 1 else "...")


def parts(*about: str | None) -> tuple[list[str], list[str], list[str]]:
    """The paragraphs before the examples, the commands, and the paragraphs after them."""
    before, examples, after = list[str](), list[str](), list[str]()
    paragraphs = [part for text in about for part in inspect.cleandoc(text or "").split("\n\n")]
    for paragraph in filter(None, paragraphs):
        if paragraph.startswith("pace "):
            commands = re.split(r"\n(?=pace )", paragraph)
            examples += [" ".join(command.split()) for command in commands]
        else:
            (after if examples else before).append(" ".join(paragraph.split()))
    return before, examples, after


def write_paragraphs(paragraphs: list[str], formatter: Any) -> None:
    for paragraph in paragraphs:
        formatter.write_paragraph()
        formatter.write_text(paragraph)


def broken(command: str, width: int) -> list[str]:
    """A command as it can be pasted: lines end in a backslash, options stay with their values."""
    lines: list[str] = []
    line = "  "
    for piece in command.replace(" --", "\n--").split("\n"):
        if len(line) + len(piece) + 2 > width and line.strip():
            lines.append(line.rstrip() + " \\")
            line = " " * 6
        line += piece + " "
    return [*lines, line.rstrip()]
