"""A document as one HTML page that needs nothing but itself; `page.html.jinja` is its form."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import NoReturn

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pace.io.text import Medium, shown
from pace.reports.document import Change, Document, Section, View
from pace.reports.table import Table, head_groups

MARKS = {"best": "strong", "second": "u", "absent": "i"}
VERDICTS = {
    "holds": "✓ holds",
    "within": "≈ holds within the draw's spread",
    "fails": "✗ does not hold",
    "absent": "– cannot be judged",
}


def render_page(document: Document) -> str:
    """The whole file."""
    files = resources.files("pace.reports")  # no `</` in them ends the element they are put into
    style, script = ((files / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (  # the browser itself sees to it that the page loads nothing and runs only our script
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    template = _environment().get_template("page.html.jinja")
    return template.render(document=document, style=style, script=script, policy=policy)


def render_table(table: Table) -> str:
    """The figure of one table, as it is on a page."""
    macros = _environment().get_template("table.html.jinja").module
    return str(macros.table(table))  # type: ignore[attr-defined]


@cache
def _environment() -> Environment:
    """Text is escaped wherever it stands; a name that the template misspells is an error."""
    environment = Environment(
        loader=PackageLoader("pace", "reports"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        finalize=_inert_text,
    )
    environment.globals |= {"marks": MARKS, "verdicts": VERDICTS, "runs": head_groups}
    environment.globals |= {"axis": _axis, "short": _short, "unknown": _unknown}
    environment.filters |= {
        "anchor": lambda title: re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-"),
        "base64": lambda content: base64.b64encode(content).decode(),
        "inert": _inert,
        "json": json.dumps,
        "lines": lambda text: Markup(
            "\n".join(shown(line, Medium.HTML) for line in text.split("\n"))
        ),
        "drawn": _drawn,
        "kind": lambda block: type(block).__name__,
    }
    environment.tests["section"] = lambda block: isinstance(block, Section)
    return environment


def _inert_text(value: object) -> object:
    """Text as one line that is text and nothing else; see `pace.io.text`."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return Markup(shown(value, Medium.HTML))


def _axis(rows: Sequence[Change]) -> tuple[float, float]:
    """From the tenth below the smallest value to the tenth above the largest."""
    values = [value for row in rows for value in (row.before, row.after)] or [0.0, 1.0]
    low, high = math.floor(10 * min(values)) / 10, math.ceil(10 * max(values)) / 10
    return (low, high) if high > low else (max(0.0, low - 0.1), min(1.0, high + 0.1))


def _drawn(png: bytes) -> int:
    """The width a picture was drawn for, in CSS pixels (96 to the inch): here its type is its own."""
    width = int.from_bytes(png[16:20], "big")
    at = png[:256].find(b"pHYs")
    per_metre = int.from_bytes(png[at + 4 : at + 8], "big") if at > 0 else 0
    return round(width / per_metre / 0.0254 * 96) if per_metre else width


def _short(count: int) -> str:
    """In four characters, as there is room below a bar."""
    if count < 10_000:
        return str(count)
    return f"{count // 1000}k" if count < 10**6 else f"{count // 10**6}M"


def _inert(views: Sequence[Sequence[View]]) -> Markup:
    """Views as JSON inside a script element, which no text in it can end."""

    def plain(view: View) -> dict[str, object]:
        matrices = [[shown(matrix.title), matrix.counts] for matrix in view.matrices]
        return {"name": shown(view.name), "text": shown(view.text), "matrices": matrices}

    rows = [list(map(plain, row)) for row in views]
    text = json.dumps(rows, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _unknown(kind: str) -> NoReturn:
    raise TypeError(f"a page has no {kind}")
