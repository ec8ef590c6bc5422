"""A drill-down as HTML: every table is there; the script shows one, and opens its rows."""

from __future__ import annotations

import json

from pace.reports.page.document import Choice, Drilldown
from pace.reports.page.element import Html, element
from pace.reports.page.table import table


def drilldown(found: Drilldown) -> Html:
    return element(
        "div",
        *map(_choice, found.choices),
        class_="drilldown",
        data_labels=json.dumps(found.labels),
    )


def _choice(choice: Choice) -> Html:
    views = [
        [
            {
                "name": view.name,
                "text": view.text,
                "matrices": [[matrix.title, matrix.counts] for matrix in view.matrices],
            }
            for view in row
        ]
        for row in choice.views
    ]
    data = element("script", inert(views), type="application/json") if views else ""
    return element(
        "div", table(choice.table), data, class_="choice", data_keys=json.dumps(choice.keys)
    )


def inert(data: object) -> Html:
    """JSON inside a script element, which no text in it can end."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return Html(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
