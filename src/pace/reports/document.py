"""What a page is made of. A document is data; HTML is made of it elsewhere, Markdown here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pace.io.text import Medium, shown
from pace.reports.table import Table


class Text(NamedTuple):
    """A paragraph."""

    text: str


class Code(NamedTuple):
    """Something to be copied as it stands, such as a command."""

    text: str


class Facts(NamedTuple):
    """Names and their values."""

    pairs: tuple[tuple[str, str], ...]


class Finding(NamedTuple):
    """What somebody claims, what became of it, and what was seen."""

    statement: str
    verdict: str  # holds, within (a draw's spread), fails, absent (cannot be judged)
    evidence: str


class Findings(NamedTuple):
    """Claims, each with its evidence."""

    items: tuple[Finding, ...]


class Figure(NamedTuple):
    """A picture, and what it shows for those who cannot see it."""

    caption: str
    alt: str
    png: bytes


class Fold(NamedTuple):
    """What is closed until asked for; open in print."""

    summary: str
    blocks: tuple[Block, ...]


class Matrix(NamedTuple):
    """A confusion matrix as text: `12 0;3 4`, a row a true class."""

    title: str
    counts: str


class Confusion(NamedTuple):
    """A confusion matrix on the page itself; `labels` name its classes."""

    title: str
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]  # a row a true class


class Mark(NamedTuple):
    """One bin of a reliability diagram: nodes that a model is about equally sure of."""

    confidence: float
    accuracy: float
    nodes: int


class Reliability(NamedTuple):
    """How often a model is right against how sure it is, in equal bins from 0 to 1."""

    title: str
    marks: tuple[Mark, ...]


class Change(NamedTuple):
    """One line of a chart of changes; values are from 0 to 1."""

    name: str
    before: float
    after: float
    share: float | None = None  # a bar beside it


class Changes(NamedTuple):
    """Before and after, a line each, on one axis; a share beside each where there is one."""

    caption: str
    heads: tuple[str, str, str]  # what the lines are, what before and after are called
    rows: tuple[Change, ...]
    share: str = ""  # what the bar beside it is
    note: str = ""


class Beside(NamedTuple):
    """Blocks side by side where there is room."""

    blocks: tuple[Block, ...]


class View(NamedTuple):
    """One look at a row of a drill-down: a sentence and its matrices."""

    name: str
    text: str
    matrices: tuple[Matrix, ...]


class Choice(NamedTuple):
    """One table of a drill-down, by its keys, and for each of its rows the views it opens."""

    keys: tuple[str, ...]
    table: Table
    views: tuple[tuple[View, ...], ...] = ()


class Drilldown(NamedTuple):
    """Tables to choose from by keys; `labels` are what the keys are called."""

    labels: tuple[str, ...]
    choices: tuple[Choice, ...]


class Section(NamedTuple):
    """A part of the page with a title."""

    title: str
    blocks: tuple[Block, ...]


Chart = Figure | Confusion | Reliability | Changes
Block = Text | Code | Facts | Findings | Table | Fold | Drilldown | Section | Beside | Chart


@dataclass(frozen=True)
class Document:
    """A page: its title, one paragraph, its headline numbers, its sections."""

    title: str
    lede: str
    headline: tuple[tuple[str, str], ...]  # a number and what it counts
    sections: tuple[Section, ...]
    flows: bool = False  # in print, sections follow each other instead of beginning new sheets

    def markdown(self) -> str:
        """The same without what is drawn or folded away."""
        parts = [f"# {_markdown(Text(self.title))}", _markdown(Text(self.lede))]
        parts.append(_markdown(Facts(tuple((label, number) for number, label in self.headline))))
        for section in self.sections:
            parts += [f"## {_markdown(Text(section.title))}", *map(_markdown, section.blocks)]
        return "\n\n".join(filter(None, parts)) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Text(text):
            return shown(text, Medium.MARKDOWN)
        case Code(text):
            return f"```\n{text}\n```"
        case Facts(pairs):
            lines = (shown(f"{name}: {value}", Medium.MARKDOWN) for name, value in pairs)
            return "\n".join(f"- {line}" for line in lines)
        case Findings(items):
            return "\n\n".join(_markdown(Text(f"{i.statement} {i.evidence}")) for i in items)
        case Table(title, note=note):
            return "\n\n".join(
                filter(None, (_markdown(Text(title)), block.markdown(), _markdown(Text(note))))
            )
    return ""
