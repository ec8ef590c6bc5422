"""Numbers as people and spreadsheets write them: decimal commas, and marks between thousands.

`1.234` is 1.234 in one file and 1234 in another, so a column is read as a whole, and with an eye on
the file's other columns. What stays unclear is reported, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pace.errors import SettingError
from pace.tables.problems import listed

Array = np.ndarray[Any, np.dtype[np.float32]]

MINUS = "\u2212"  # as typographers write it
GAP = "[\u00a0\u202f '\u2019]"  # between thousands, besides the point or the comma
SIGN = f"[+{MINUS}-]?"
GROUPS = rf"{SIGN}[1-9]\d{{0,2}}(?:(?:\.|{GAP})\d{{3}})+"
COMMA = re.compile(rf"(?:{SIGN}\d+|{GROUPS}),\d+")  # 61,5 or 1.234,5
GROUPED = re.compile(GROUPS)  # 1.234 for 1234
ENGLISH = re.compile(GROUPS.replace(r"\.", ",") + r"(?:\.\d+)?")  # 1,234.5
WHOLE = re.compile(rf"{SIGN}\d+")
STYLES = ("comma", "point")


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column read as numbers; NaN where a cell is none."""

    values: Array  # (rows,)
    text: dict[int, str]  # index -> what a cell holds that is no number
    style: str = "plain"  # comma, point, plain, unclear (1,234 alone can be either) or mixed

    @property
    def expected(self) -> str:
        """What a cell of this column should be."""
        plain = self.style in ("plain", "point")
        return "a finite number" if plain else "a number with a decimal comma"


def check_decimal(style: str | None) -> None:
    """Refuse any other style than comma and point."""
    if style not in (None, *STYLES):
        raise SettingError(f"--decimal is {style!r}, expected {' or '.join(STYLES)}")


def parse_cells(
    cells: Sequence[str], style: str = "plain", read: Callable[[str], float] = float
) -> Numbers:
    """The numbers of a column, by a function that raises ValueError for what is none."""
    try:
        return Numbers(_narrow(np.fromiter(map(read, cells), np.float64, len(cells))), {}, style)
    except ValueError:
        pass
    values = np.full(len(cells), np.nan)
    text = {}
    for index, cell in enumerate(cells):
        try:
            values[index] = read(cell.strip().replace(MINUS, "-"))
        except ValueError:
            text[index] = cell.strip()
    return Numbers(_narrow(values), text, style)


def _narrow(values: np.ndarray[Any, Any]) -> Array:
    with np.errstate(over="ignore"):  # too large for float32: infinite, and reported as such
        return values.astype(np.float32)


def join_numbers(parts: Sequence[Numbers]) -> Numbers:
    """One column of consecutive parts."""
    text: dict[int, str] = {}
    first = 0
    for part in parts:
        text |= {first + index: cell for index, cell in part.text.items()}
        first += len(part.values)
    return Numbers(np.concatenate([part.values for part in parts]), text)


def is_number(cell: str) -> bool:
    """Whether it is a number in some notation, also in another than the column's."""
    try:
        float(cell)
    except ValueError:
        return any(pattern.fullmatch(cell) for pattern in (COMMA, GROUPED, ENGLISH))
    return True


def has_marks(columns: Iterable[Numbers]) -> bool:
    """Whether a cell that Python does not read is a number with a comma, or with thousands."""
    return any(is_number(cell) for numbers in columns for cell in numbers.text.values())


def parse_columns(
    columns: Mapping[str, Sequence[str]], decimal: str | None, delimiter: str, notes: list[str]
) -> dict[str, Numbers]:
    """The columns of a file as numbers, each in the one style that fits all of its cells."""
    styles = {name: decimal or _style(cells) for name, cells in columns.items()}
    comma = "comma" in styles.values() or (delimiter != "," and "unclear" in styles.values())
    commas = [
        name for name, style in styles.items() if style == "comma" or (style == "unclear" and comma)
    ]
    grouped = [
        name
        for name, style in styles.items()
        if style == "plain" and comma and _all_grouped(columns[name])
    ]
    if commas:
        notes.append(f"decimal commas: {listed(commas)}")
    if grouped:
        notes.append(
            f"points between thousands, as the file has decimal commas elsewhere: {listed(grouped)} "
            "(--decimal point reads them as decimal points)"
        )
    if english := [name for name, style in styles.items() if style == "point" and not decimal]:
        notes.append(f"commas between thousands: {listed(english)}")
    styles |= dict.fromkeys([*commas, *grouped], "comma")
    readers = {"comma": _decimal_comma, "point": _decimal_point}
    return {
        name: parse_cells(cells, styles[name], readers.get(styles[name], float))
        for name, cells in columns.items()
    }


def _style(cells: Sequence[str]) -> str:
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


def _decimal_comma(cell: str) -> float:
    if not any(pattern.fullmatch(cell) for pattern in (COMMA, GROUPED, WHOLE)):
        raise ValueError(cell)
    return float(re.sub(rf"\.|{GAP}", "", cell).replace(",", "."))


def _decimal_point(cell: str) -> float:
    return float(re.sub(f",|{GAP}", "", cell) if ENGLISH.fullmatch(cell) else cell)
