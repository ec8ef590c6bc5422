"""A document as one HTML page that needs nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources

from pace.reports.page.blocks import render
from pace.reports.page.document import Document, Section
from pace.reports.page.element import Html, element


def page(document: Document) -> str:
    """The whole file."""
    style, script = _asset("page.css"), _asset("page.js")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        element("link", rel="icon", href="data:,"),
        element("title", document.title),
        element("style", style),
    )
    top = element(
        "header",
        element("h1", document.title),
        element("p", document.lede, class_="lede"),
        _headline(document),
    )
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        _contents(document),
        element("main", top, *map(_section, document.sections), id="content"),
        element("script", script),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _asset(name: str) -> Html:
    """A file of this package, as it is; no `</` in it ends the element it is put into."""
    return Html(resources.files("pace.reports.page").joinpath(name).read_text(encoding="utf-8"))


def _policy(script: str) -> str:
    """The browser itself sees to it that the page loads nothing and runs only our script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def _headline(document: Document) -> Html:
    items = [
        element("div", element("dd", number), element("dt", label))
        for number, label in document.headline
    ]
    return element("dl", *items, class_="headline")


def _contents(document: Document) -> Html:
    entries = []
    for section in document.sections:
        inner = [
            element("li", _link(block)) for block in section.blocks if isinstance(block, Section)
        ]
        entries.append(element("li", _link(section), element("ul", *inner) if inner else ""))
    return element("nav", element("ul", *entries), aria_label="Contents")


def _link(section: Section) -> Html:
    return element("a", section.title, href=f"#{_anchor(section)}")


def _anchor(section: Section) -> str:
    return re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-")


def _section(section: Section, level: int = 2) -> Html:
    inner = [
        _section(block, level + 1) if isinstance(block, Section) else render(block)
        for block in section.blocks
    ]
    return element("section", element(f"h{level}", section.title), *inner, id=_anchor(section))
