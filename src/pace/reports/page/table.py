"""A table of a document as HTML: it scrolls inside its own box, and its rows can be sorted."""

from __future__ import annotations

from itertools import groupby

from pace.reports.page.document import Column, Table, Value
from pace.reports.page.element import Html, element, joined

MARKS = {"best": "strong", "second": "u", "absent": "i"}


def table(found: Table) -> Html:
    """A figure: caption, box, note."""
    body = [
        element(
            "tr",
            *(_cell(value, found.columns[place], place) for place, value in enumerate(row)),
            data_row=str(line),
        )
        for line, row in enumerate(found.rows)
    ]
    inside = element(
        "table",
        element("thead", *_heads(found.columns)),
        element("tbody", *body),
        class_="sortable",
    )
    box = element(
        "div", inside, class_="scroll", role="region", tabindex="0", aria_label=found.caption
    )
    note = element("p", found.note, class_="note") if found.note else ""
    return element("figure", element("figcaption", found.caption), box, note, class_="table")


def _heads(columns: tuple[Column, ...]) -> list[Html]:
    """One row of heads, or two where columns share a head above them."""
    heads = [
        element(
            "th",
            column.head,
            scope="col",
            data_column=str(place),
            data_kind="number" if column.numeric else "text",
            class_="start" if _starts(columns, place) else None,
        )
        for place, column in enumerate(columns)
    ]
    if not any(column.group for column in columns):
        return [element("tr", *heads)]
    runs = groupby(columns[1:], key=lambda column: column.group)
    above = [element("th")]  # over the names of the rows
    for group, members in runs:
        width = str(len(list(members)))
        scope, name = ("colgroup", "start") if group else (None, None)
        above.append(element("th", group, colspan=width, scope=scope, class_=name))
    return [element("tr", *above), element("tr", *heads)]


def _starts(columns: tuple[Column, ...], place: int) -> bool:
    """Whether a group of columns starts here."""
    return (
        place > 0
        and bool(columns[place].group)
        and (columns[place].group != columns[place - 1].group)
    )


def _cell(value: Value, column: Column, place: int) -> Html:
    text: str = element(MARKS[value.mark], value.text) if value.mark else value.text
    if value.below:
        tone = f"below {value.tone}".strip()
        text = joined(text, element("small", value.below, class_=tone))
    shared = {"data_sort": None if value.sort is None else str(value.sort)}
    if place == 0:
        return element("th", text, scope="row", **shared)
    classes = ["number"] if column.numeric else []
    classes += ["bar"] if value.share is not None else []
    style = None if value.share is None else f"--share:{value.share:.4f}"
    return element("td", text, class_=" ".join(classes) or None, style=style, **shared)
