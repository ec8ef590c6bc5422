"""What a cell is: a number as people and spreadsheets write it, a word, or nothing.

`1.234` is 1.234 in one file and 1234 in another, so a column of numbers is read as a whole, and with an
eye on the file's other columns; what stays unclear is reported, never guessed.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pace.io import one_line
from pace.tables.dates import LIKE_DATES
from pace.tables.packed import Marks
from pace.tables.problems import listed

Array = np.ndarray[Any, np.dtype[Any]]

MISSING: tuple[str, ...] = (  # in any case
    "", "na", "n/a", "n.a.", "nan", "null", "none", "#n/a", "#nv", "?", "-", "--", "–", "—", ".",
    "leer", "(leer)", "fehlt", "missing",
)  # fmt: skip

MINUS = "\u2212"  # as typographers write it
GAP = "[\u00a0\u202f '\u2019]"  # between thousands, besides the point or the comma
SIGN = f"[+{MINUS}-]?"
GROUPS = rf"{SIGN}[1-9]\d{{0,2}}(?:(?:\.|{GAP})\d{{3}})+"
COMMA = re.compile(rf"(?:{SIGN}\d+|{GROUPS}),\d+")  # 61,5 or 1.234,5
GROUPED = re.compile(GROUPS)  # 1.234 for 1234
ENGLISH = re.compile(GROUPS.replace(r"\.", ",") + r"(?:\.\d+)?")  # 1,234.5
WHOLE = re.compile(rf"{SIGN}\d+")
WITH_UNIT = re.compile(r"[+-]?\d[\d.,]*\s*([%°][^\s\d]*|[^\W\d_][^\s\d]*)")  # 5 mg, 12 %, 37 °C
LIKE_NUMBER = re.compile(r"\W*\d[\d\W]*(?:[eE][+-]?\d+)?")  # €1.50, 120/80, 12:30
SPREADSHEET = re.compile(r"=.+|#{4,}|#(REF|BEZUG|VALUE|WERT|NAME|DIV/0|NUM|ZAHL|NULL)[!?]")
LEFT_ALONE = re.compile(r'="(.*)"')
FEW = 3  # different words; fewer show no pattern
UNCLEAR_MARK = (
    "holds numbers whose mark may come before decimals or between thousands: say --decimal comma or "
    "--decimal point"
)


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column read as numbers; NaN where a cell is none."""

    values: Array  # (rows,), kept as float32
    text: Mapping[int, str]  # index -> what a cell holds that is no number
    style: str = "plain"  # comma, point, plain, unclear (1,234 alone can be either) or mixed

    def __post_init__(self) -> None:
        with np.errstate(over="ignore"):  # too large for float32: infinite, and reported as such
            object.__setattr__(self, "values", self.values.astype(np.float32, copy=False))

    @property
    def expected(self) -> str:
        """What a cell of this column should be."""
        return "a number with a decimal comma" if self.style == "comma" else "a finite number"


def parse_cells(
    cells: Sequence[str], style: str = "plain", read: Callable[[str], float] = float
) -> Numbers:
    """The numbers of a column, by a function that raises ValueError for what is none."""
    text = {}
    try:
        values = np.fromiter(map(read, cells), np.float64, len(cells))
    except ValueError:
        values = np.full(len(cells), np.nan)
        for index, cell in enumerate(map(plain_cell, cells)):
            try:
                values[index] = read(cell.replace(MINUS, "-"))
            except ValueError:
                text[index] = cell
    return Numbers(values, text, style)


def plain_cell(cell: str) -> str:
    """A cell on one line, without what makes Excel leave it alone: `="007"` is 007."""
    cell = one_line(cell) if "\n" in cell else cell.strip()
    wrapped = LEFT_ALONE.fullmatch(cell) if cell[:1] == "=" else None
    return wrapped[1] if wrapped else cell


def is_number(cell: str) -> bool:
    """Whether it is a number in some notation, also in another than the column's."""
    try:
        float(cell)
    except ValueError:
        return any(pattern.fullmatch(cell) for pattern in (COMMA, GROUPED, ENGLISH))
    return True


def parse_columns(
    columns: Mapping[str, Sequence[str]], decimal: str | None, delimiter: str, notes: list[str]
) -> dict[str, Numbers]:
    """The columns of a file as numbers, each in the one style that fits all of its cells."""
    styles = {name: decimal or _style(cells) for name, cells in columns.items()}
    pointed = {
        name: {cell.strip() for cell in columns[name] if "." in cell}
        for name, style in styles.items()
        if style == "plain"
    }
    grouped = [
        name for name, cells in pointed.items() if cells and all(map(GROUPED.fullmatch, cells))
    ]
    commas = [name for name, style in styles.items() if style in ("comma", "unclear")]
    if "comma" in styles.values() or (delimiter != "," and commas):
        notes.append(f"decimal commas: {listed(commas)}")
        if grouped:
            notes.append(
                "points between thousands, as the file has decimal commas elsewhere: "
                f"{listed(grouped)} (--decimal point reads them as decimal points)"
            )
        styles |= dict.fromkeys([*commas, *grouped], "comma")
    elif delimiter != "," and not any(pointed[name] for name in pointed if name not in grouped):
        styles |= dict.fromkeys(grouped, "unclear")
    if english := [name for name, style in styles.items() if style == "point" and not decimal]:
        notes.append(f"marks between thousands: {listed(english)}")
    readers = {"comma": _decimal_comma, "point": _decimal_point, "unclear": _without_mark}
    parsed = {}
    for name, cells in columns.items():
        numbers = parse_cells(cells, styles[name], readers.get(styles[name], float))
        parsed[name] = replace(numbers, text=Marks(numbers.text))
    return parsed


def _style(cells: Sequence[str]) -> str:
    marked = {cell.strip() for cell in cells if not cell.strip().isalnum()}
    german = {cell for cell in marked if COMMA.fullmatch(cell)}
    german |= {cell for cell in marked if cell.count(".") > 1 and GROUPED.fullmatch(cell)}
    english = {cell for cell in marked if ENGLISH.fullmatch(cell)}
    if german - english:
        return "mixed" if english - german else "comma"
    if english - german:
        return "point"
    return "unclear" if german else "plain"


def _decimal_comma(cell: str) -> float:
    if not any(pattern.fullmatch(cell) for pattern in (COMMA, GROUPED, WHOLE)):
        raise ValueError(cell)
    return float(re.sub(rf"\.|{GAP}", "", cell).replace(",", "."))


def _decimal_point(cell: str) -> float:
    return float(re.sub(f",|{GAP}", "", cell) if ENGLISH.fullmatch(cell) else cell)


def _without_mark(cell: str) -> float:
    if "." in cell:
        raise ValueError(cell)
    return float(cell)


def missing_among(cells: Collection[str], words: Sequence[str] = MISSING) -> tuple[str, ...]:
    """The words that mean a missing value among these cells: beside a `+`, a `-` is a result."""
    return tuple(word for word in words if word != "-" or "+" not in cells)


def not_words(words: Collection[str]) -> str | None:
    """Why a column cannot be used as words, though its cells are no numbers or dates of one form."""
    if spoilt := sorted(filter(SPREADSHEET.fullmatch, words)):
        return (
            f"holds what a spreadsheet shows in place of a value, such as {spoilt[0]!r}: save the table "
            "with values"
        )
    dates = sorted(filter(LIKE_DATES.fullmatch, words))
    if len(words) < FEW or 2 * len(dates) <= len(words):
        return None
    return (
        "holds dates that are not all written alike, or with the month as a word or a year of two "
        f"digits (such as {'; '.join(dates[:3])}): write them all as 2024-03-31"
    )


def like_numbers(words: Collection[str]) -> str | None:
    """One of the words, if most of them look like numbers in a notation that is not read."""
    numerals = sorted(filter(LIKE_NUMBER.fullmatch, words))
    return numerals[0] if len(words) > 1 and 2 * len(numerals) > len(words) else None


def missing_numbers(missing: Sequence[str]) -> Array:
    """The numbers among the words for a missing value, such as -999."""
    values = parse_cells(missing).values
    return values[np.isfinite(values)]


def unit_of(words: Collection[str]) -> str | None:
    """The unit behind the numbers of most words: `mg` of `5 mg`."""
    units = Counter(match[1] for word in words if (match := WITH_UNIT.fullmatch(word)))
    unit, count = max(units.items(), key=lambda item: item[1], default=(None, 0))
    return unit if len(words) >= FEW and 2 * count > len(words) else None


def fold(word: str) -> str:
    """A word without case, accents and spaces."""
    letters = unicodedata.normalize("NFKD", word.casefold())
    return "".join(c for c in letters if not unicodedata.combining(c) and not c.isspace())


def spelt_alike(words: Iterable[str]) -> list[list[str]]:
    """Groups of words that differ in case, spaces or accents only: most often each is one word."""
    groups: dict[str, set[str]] = {}
    for word in words:
        groups.setdefault(fold(word), set()).add(word)
    return [sorted(group) for group in groups.values() if len(group) > 1]


def alike_notes(column: str, words: Iterable[str], kind: str) -> list[str]:
    """A note for each group of words that are spelt alike."""
    return [
        f"{column}: {' and '.join(map(repr, group))} are {len(group)} {kind}: if they are one, write "
        "them alike"
        for group in spelt_alike(words)
    ]


def in_order(names: Iterable[str]) -> list[str]:
    """Each name once: whole numbers by value, anything else by alphabet."""
    whole = {name: whole_number(name) for name in names}
    if any(value is None for value in whole.values()):
        return sorted(whole)
    return sorted(whole, key=lambda name: (whole[name] or 0, name))


def whole_number(cell: str) -> int | None:
    """The whole number in a cell; 3.0 is 3 that passed through a spreadsheet."""
    try:
        return int(float(cell)) if float(cell).is_integer() else None
    except (ValueError, OverflowError):
        return None
