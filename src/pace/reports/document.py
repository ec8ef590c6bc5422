"""What a page is made of, and the page itself: Markdown, or one HTML file that needs nothing else.

A document is data; `page.html.jinja` is its form.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pace.io import shown
from pace.reports.table import Table, head_groups
from pace.task import Bin


class Text(NamedTuple):
    """A paragraph."""

    text: str


class Code(NamedTuple):
    """Something to copy, such as a command."""

    text: str


class Facts(NamedTuple):
    """Names and their values."""

    pairs: tuple[tuple[str, str], ...]


class Finding(NamedTuple):
    """A claim, its verdict, and what was measured."""

    statement: str
    verdict: str  # a key of `verdicts` in page.html.jinja
    evidence: str


class Findings(NamedTuple):
    items: tuple[Finding, ...]


class Figure(NamedTuple):
    """A picture, and what it shows for those who cannot see it."""

    caption: str
    alt: str
    png: bytes


class Fold(NamedTuple):
    """What is closed until asked for; open in print."""

    summary: str
    blocks: "tuple[Block, ...]"


class Confusion(NamedTuple):
    """A confusion matrix on the page itself; `labels` name its classes."""

    title: str
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]  # a row a true class


class Reliability(NamedTuple):
    """How often a model is right against how sure it is, in equal bins from 0 to 1."""

    title: str
    bins: tuple[Bin, ...]


class Change(NamedTuple):
    """One client's line of a chart of changes; values are from 0 to 1."""

    name: str
    before: float
    after: float
    alpha: float  # a bar beside it


class Changes(NamedTuple):
    """Local and what was adopted, a line a client, on one axis; α beside each."""

    caption: str
    rows: tuple[Change, ...]
    note: str


class Beside(NamedTuple):
    """Blocks side by side where there is room."""

    blocks: "tuple[Block, ...]"


class Drilldown(NamedTuple):
    """Tables to choose from by keys; `labels` are what the keys are called."""

    labels: tuple[str, ...]
    tables: Mapping[tuple[str, ...], Table]


class Section(NamedTuple):
    title: str
    blocks: "tuple[Block, ...]"


Chart = Figure | Confusion | Reliability | Changes
Block = Text | Code | Facts | Findings | Table | Fold | Drilldown | Section | Beside | Chart


@dataclass(frozen=True)
class Document:
    """A page: its title, one paragraph, its headline numbers, its sections."""

    title: str
    lede: str
    headline: tuple[tuple[str, str], ...]  # a number and what it counts
    sections: tuple[Section, ...]
    refresh: int = 0  # seconds after which a browser reads the file again; 0: never

    def markdown(self) -> str:
        """The same without what is drawn or folded away."""
        parts = [f"# {_markdown(self.title)}", _markdown(self.lede)]
        parts.append(_markdown(Facts(tuple((label, number) for number, label in self.headline))))
        for section in self.sections:
            parts += [f"## {_markdown(section.title)}", *map(_markdown, section.blocks)]
        return "\n\n".join(filter(None, parts)) + "\n"


def _markdown(block: Block | str) -> str:
    match block:
        case str(text) | Text(text):
            return shown(text, "markdown")
        case Code(text):
            return f"```\n{text}\n```"
        case Facts(pairs):
            return "\n".join(f"- {_markdown(f'{name}: {value}')}" for name, value in pairs)
        case Findings(items):
            return "\n\n".join(_markdown(f"{i.statement} {i.evidence}") for i in items)
        case Table(title, note=note):
            parts = (_markdown(title), block.markdown(), _markdown(note))
            return "\n\n".join(filter(None, parts))
    return ""


def render_page(document: Document) -> str:
    files = resources.files("pace.reports")  # no `</` in them ends the element they are put into
    style, script = ((files / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (  # the browser itself sees to it that the page loads nothing and runs only our script
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    template = environment().get_template("page.html.jinja")
    return template.render(document=document, style=style, script=script, policy=policy)


@cache
def environment() -> Environment:
    """The templates. All text is escaped; a name that the template misspells is an error."""
    environment = Environment(
        loader=PackageLoader("pace", "reports"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        finalize=_inert_text,
    )
    environment.globals["runs"] = head_groups
    filters: dict[str, Callable[..., object]] = {
        "anchor": lambda title: re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-"),
        "base64": lambda content: base64.b64encode(content).decode(),
        "lines": lambda text: Markup("\n".join(shown(line, "html") for line in text.split("\n"))),
        "drawn": _drawn,
    }
    environment.filters |= filters
    return environment


def _inert_text(value: object) -> object:
    """Text as one line that is text and nothing else; see `pace.io.text`."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return Markup(shown(value, "html"))


def _drawn(png: bytes) -> int:
    """The width a picture was drawn for, in CSS pixels (96 to the inch): here its type is its own."""
    width = int.from_bytes(png[16:20], "big")
    at = png[:256].find(b"pHYs")
    per_metre = int.from_bytes(png[at + 4 : at + 8], "big") if at > 0 else 0
    return round(width / per_metre / 0.0254 * 96) if per_metre else width
