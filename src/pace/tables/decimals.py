"""Numbers as people and spreadsheets write them: decimal commas, and marks between thousands.

`1.234` is 1.234 in one file and 1234 in another, so a column is read as a whole, and with an eye on
the file's other columns. What stays unclear is said, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pace.errors import SettingError
from pace.tables.table import Numbers

GAP = "[\u00a0\u202f '\u2019]"  # between thousands, besides the point or the comma
COMMA = re.compile(rf"[+-]?(?:\d+|[1-9]\d{{0,2}}(?:(?:\.|{GAP})\d{{3}})+),\d+")  # 61,5 or 1.234,5
GROUPED = re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:(?:\.|{GAP})\d{{3}})+")  # 1.234 for 1234
ENGLISH = re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:(?:,|{GAP})\d{{3}})+(?:\.\d+)?")  # 1,234.5
WHOLE = re.compile(r"[+-]?\d+")
STYLES = ("comma", "point")


def check(style: str | None) -> None:
    if style not in (None, *STYLES):
        raise SettingError(f"--decimal is {style!r}, expected {' or '.join(STYLES)}")


def in_some_style(cell: str) -> bool:
    """Whether it is a number with a comma, or with marks between thousands."""
    return any(pattern.fullmatch(cell) for pattern in (COMMA, GROUPED, ENGLISH))


def suspicious(columns: Iterable[Numbers]) -> bool:
    """Whether some cell that Python reads as no number is one with a comma, or with thousands."""
    return any(in_some_style(cell) for numbers in columns for cell in numbers.text.values())


def numbers(
    columns: Mapping[str, Sequence[str]], style: str | None, delimiter: str, notes: list[str]
) -> dict[str, Numbers]:
    """The columns of a file as numbers, each in the one way that fits all of its cells."""
    styles = {name: style or _style(cells) for name, cells in columns.items()}
    comma = "comma" in styles.values() or (delimiter != "," and "unclear" in styles.values())
    made, grouped = {}, []
    for name, cells in columns.items():
        chosen = styles[name]
        if chosen == "unclear":
            chosen = "comma" if comma else "unclear"
        if chosen == "plain" and comma and _all_grouped(cells):
            chosen = "comma"
            grouped.append(name)
        styles[name] = chosen
        made[name] = _parsed(cells, chosen)
    commas = [name for name, chosen in styles.items() if chosen == "comma"]
    if with_commas := [name for name in commas if name not in grouped]:
        notes.append(f"decimal commas: {_listed(with_commas)}")
    if grouped:
        notes.append(
            f"points between thousands, as the file has decimal commas elsewhere: {_listed(grouped)} "
            "(--decimal point reads them as decimal points)"
        )
    if english := [name for name, chosen in styles.items() if chosen == "point" and not style]:
        notes.append(f"commas between thousands: {_listed(english)}")
    return made


def _style(cells: Sequence[str]) -> str:
    """comma, point, unclear (1,234 alone can be either), mixed, or plain: no mark at all."""
    marked = {cell.strip() for cell in cells if not cell.strip().isalnum()}
    german = {cell for cell in marked if COMMA.fullmatch(cell)}
    german |= {cell for cell in marked if cell.count(".") > 1 and GROUPED.fullmatch(cell)}
    english = {cell for cell in marked if ENGLISH.fullmatch(cell)}
    if german - english and english - german:
        return "mixed"
    if german - english:
        return "comma"
    if english - german:
        return "point"
    return "unclear" if german else "plain"


def _all_grouped(cells: Sequence[str]) -> bool:
    """Whether every point in the column can stand between thousands, and there is one."""
    pointed = {cell.strip() for cell in cells if "." in cell}
    return bool(pointed) and all(map(GROUPED.fullmatch, pointed))


def _parsed(cells: Sequence[str], style: str) -> Numbers:
    if style not in STYLES:
        return Numbers.of(cells, mixed=style != "plain")
    values = np.full((len(cells), 1), np.nan)
    text = {}
    for index, cell in enumerate(map(str.strip, cells)):
        number = _comma(cell) if style == "comma" else _point(cell)
        if number is None:
            text[index] = cell
        else:
            values[index] = number
    with np.errstate(over="ignore"):
        return Numbers(values.astype(np.float32), text, mixed=style == "comma")


def _comma(cell: str) -> float | None:
    if not (COMMA.fullmatch(cell) or GROUPED.fullmatch(cell) or WHOLE.fullmatch(cell)):
        return None
    return float(re.sub(rf"\.|{GAP}", "", cell).replace(",", "."))


def _point(cell: str) -> float | None:
    if ENGLISH.fullmatch(cell):
        cell = re.sub(f",|{GAP}", "", cell)
    try:
        return float(cell)
    except ValueError:
        return None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
