"""Each block of a document as HTML."""

from __future__ import annotations

import base64
from functools import singledispatch

from pace.reports.page.document import (
    Block,
    Code,
    Drilldown,
    Facts,
    Figure,
    Findings,
    Fold,
    Table,
    Text,
)
from pace.reports.page.drilldown import drilldown
from pace.reports.page.element import Html, element
from pace.reports.page.table import table

VERDICT = {
    True: ("holds", "✓ holds"),
    False: ("fails", "✗ does not hold"),
    None: ("absent", "– not run"),
}


@singledispatch
def render(block: Block) -> Html:
    raise TypeError(f"a page has no {type(block).__name__}")


@render.register
def _(block: Text) -> Html:
    return element("p", block.text)


@render.register
def _(block: Code) -> Html:
    return element("pre", element("code", block.text), tabindex="0")


@render.register
def _(block: Facts) -> Html:
    items = [
        element("div", element("dt", name), element("dd", value)) for name, value in block.pairs
    ]
    return element("dl", *items, class_="facts")


@render.register
def _(block: Findings) -> Html:
    items = []
    for item in block.items:
        kind, words = VERDICT[item.holds]
        items.append(
            element(
                "li",
                element("span", words, class_=f"verdict {kind}"),
                element("p", item.statement, class_="statement"),
                element("p", item.evidence, class_="evidence"),
                class_=kind,
            )
        )
    return element("ol", *items, class_="findings")


@render.register
def _(block: Figure) -> Html:
    source = "data:image/png;base64," + base64.b64encode(block.png).decode()
    picture = element("img", src=source, alt=block.alt)
    caption = element("figcaption", block.caption)
    return element("figure", element("div", picture, class_="picture"), caption)


@render.register
def _(block: Fold) -> Html:
    return element("details", element("summary", block.summary), *map(render, block.blocks))


@render.register
def _(block: Table) -> Html:
    return table(block)


@render.register
def _(block: Drilldown) -> Html:
    return drilldown(block)
