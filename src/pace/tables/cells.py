"""What a cell is: a number as people and spreadsheets write it, a date, a word, or nothing.

`1.234` is 1.234 in one file and 1234 in another, so a column of numbers is read as a whole, and with an
eye on the file's other columns; what stays unclear is reported, never guessed. Dates become days since
2000-01-01: 2024-03-31, 31.03.2024 and, where the order shows, 31/03/2024.
"""

from __future__ import annotations

import math
import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import islice
from typing import Any, overload

import numpy as np

from pace.tables.problems import listed

Array = np.ndarray[Any, np.dtype[Any]]

MISSING: tuple[str, ...] = (  # in any case
    "", "na", "n/a", "n.a.", "nan", "null", "none", "#n/a", "#nv", "?", "-", "--", "–", "—", "leer",
    "(leer)", "fehlt", "missing",
)  # fmt: skip

FIRST_DAY = date(2000, 1, 1).toordinal()
DAY, MONTH, YEAR = r"(?P<day>\d{1,2})", r"(?P<month>\d{1,2})", r"(?P<year>\d{4})"
TIME = r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?(?:Z|[+-]\d{2}:?\d{2})?)?"
SLASHES = re.compile(f"{DAY}/{MONTH}/{YEAR}{TIME}")
DATES = (
    re.compile(f"{YEAR}-{MONTH}-{DAY}{TIME}"),
    re.compile(rf"{DAY}\.{MONTH}\.{YEAR}{TIME}"),
    SLASHES,
)
UNCLEAR_DAYS = "has dates whose day and month cannot be told apart: write them as 2024-03-31"
SHORT_YEAR = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{2}")  # 31.3.24

MINUS = "\u2212"  # as typographers write it
GAP = "[\u00a0\u202f '\u2019]"  # between thousands, besides the point or the comma
SIGN = f"[+{MINUS}-]?"
GROUPS = rf"{SIGN}[1-9]\d{{0,2}}(?:(?:\.|{GAP})\d{{3}})+"
COMMA = re.compile(rf"(?:{SIGN}\d+|{GROUPS}),\d+")  # 61,5 or 1.234,5
GROUPED = re.compile(GROUPS)  # 1.234 for 1234
ENGLISH = re.compile(GROUPS.replace(r"\.", ",") + r"(?:\.\d+)?")  # 1,234.5
WHOLE = re.compile(rf"{SIGN}\d+")
WITH_UNIT = re.compile(r"[+-]?\d[\d.,]*\s*(%|[^\W\d_][^\s\d]*)")  # 5 mg, 12 %
NUL = "\0"
FEW = 3  # different words; fewer show no pattern


class Words(Sequence[str]):
    """A column of text as UTF-8 with NUL after each cell: as strings, a cell takes 50 bytes more.

    Every `SPAN` cells or more their number and their bytes are noted. A cell is found among those
    that lie between two notes, which are kept decoded: reading in order decodes everything once.
    """

    SPAN = 512

    def __init__(self, cells: Iterable[str] = ()) -> None:
        self._bytes, self._count = bytearray(), 0
        self._cells, self._starts = array("q", [0]), array("q", [0])
        self._span, self._decoded = -1, list[str]()
        self.extend(cells)

    def extend(self, cells: Iterable[str]) -> None:
        """Add cells at the end."""
        cells, self._span = iter(cells), -1
        while added := list(islice(cells, self.SPAN)):
            self._bytes += "".join(f"{cell.replace(NUL, ' ')}{NUL}" for cell in added).encode()
            self._count += len(added)
            if self._count - self._cells[-1] >= self.SPAN:
                self._cells.append(self._count)
                self._starts.append(len(self._bytes))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        for span in range(len(self._starts)):
            yield from self._read(span)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(self._count))]
        index = range(self._count)[index]
        span = bisect_right(self._cells, index) - 1
        if span != self._span:
            self._span, self._decoded = span, self._read(span)
        return self._decoded[index - self._cells[span]]

    def _read(self, span: int) -> list[str]:
        end = self._starts[span + 1] if span + 1 < len(self._starts) else len(self._bytes)
        return self._bytes[self._starts[span] : end].decode().split(NUL)[:-1]


class Marks(Mapping[int, str]):
    """The few or many cells of a column that are no numbers, by index, in order."""

    def __init__(self, marks: Mapping[int, str] | None = None) -> None:
        self._places, self._words = array("i"), Words()
        self.update(marks or {})

    def update(self, marks: Mapping[int, str], after: int = 0) -> None:
        """Add the marks of rows that follow; their indices count from `after`."""
        self._places.extend(after + index for index in marks)
        self._words.extend(marks.values())

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __getitem__(self, index: int) -> str:
        place = bisect_left(self._places, index)
        if place == len(self._places) or self._places[place] != index:
            raise KeyError(index)
        return self._words[place]


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
        plain = self.style in ("plain", "point")
        return "a finite number" if plain else "a number with a decimal comma"


def parse_cells(
    cells: Sequence[str], style: str = "plain", read: Callable[[str], float] = float
) -> Numbers:
    """The numbers of a column, by a function that raises ValueError for what is none."""
    text = {}
    try:
        values = np.fromiter(map(read, cells), np.float64, len(cells))
    except ValueError:
        values = np.full(len(cells), np.nan)
        for index, cell in enumerate(cells):
            try:
                values[index] = read(cell.strip().replace(MINUS, "-"))
            except ValueError:
                text[index] = cell.strip()
    return Numbers(values, text, style)


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
    if "comma" in styles.values() or (delimiter != "," and "unclear" in styles.values()):
        commas = [name for name, style in styles.items() if style in ("comma", "unclear")]
        grouped = []
        for name in (name for name, style in styles.items() if style == "plain"):
            pointed = {cell.strip() for cell in columns[name] if "." in cell}
            if pointed and all(map(GROUPED.fullmatch, pointed)):
                grouped.append(name)
        notes.append(f"decimal commas: {listed(commas)}")
        if grouped:
            notes.append(
                "points between thousands, as the file has decimal commas elsewhere: "
                f"{listed(grouped)} (--decimal point reads them as decimal points)"
            )
        styles |= dict.fromkeys([*commas, *grouped], "comma")
    if english := [name for name, style in styles.items() if style == "point" and not decimal]:
        notes.append(f"commas between thousands: {listed(english)}")
    readers = {"comma": _decimal_comma, "point": _decimal_point}
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


def missing_among(cells: Collection[str], words: Sequence[str] = MISSING) -> tuple[str, ...]:
    """The words that mean a missing value among these cells: beside a `+`, a `-` is a result."""
    return tuple(word for word in words if word != "-" or "+" not in cells)


def are_dates(cells: Collection[str]) -> bool:
    """Whether all of these look like dates, of one form."""
    return bool(cells) and any(all(map(form.fullmatch, cells)) for form in DATES)


def unclear_days(cells: Sequence[str]) -> bool:
    """Whether day and month cannot be told apart in any of the dates with slashes."""
    larger = [max(int(match[1]), int(match[2])) for match in map(SLASHES.fullmatch, cells) if match]
    return bool(larger) and max(larger) <= 12


def parse_dates(cells: Sequence[str]) -> Array:
    """Days since 2000-01-01 with the part of the day; NaN where a cell is no date."""
    month_first = any(int(match[2]) > 12 for match in map(SLASHES.fullmatch, cells) if match)
    matches = (next(filter(None, (form.fullmatch(cell) for form in DATES)), None) for cell in cells)
    days = (math.nan if match is None else _days(match, month_first) for match in matches)
    return np.fromiter(days, np.float64, len(cells))


def _days(match: re.Match[str], month_first: bool) -> float:
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    if month_first and match.re is SLASHES:
        month, day = day, month
    hours, minutes, seconds = (float(part or 0) for part in match.groups()[3:])
    try:
        days = date(year, month, day).toordinal() - FIRST_DAY
    except ValueError:
        return math.nan
    return days + (hours + (minutes + seconds / 60) / 60) / 24


def show_day(number: float) -> str:
    """The date of a number of days; the number itself where no calendar has that day."""
    try:
        return date.fromordinal(FIRST_DAY + round(number)).isoformat()
    except (ValueError, OverflowError):
        return f"{number:g} days"


def not_words(words: Collection[str]) -> str | None:
    """Why a column cannot be used as words, though its cells are not dates of one form."""
    forms = (*DATES, SHORT_YEAR)
    dates = sorted(word for word in words if any(form.fullmatch(word) for form in forms))
    if len(words) < FEW or 2 * len(dates) <= len(words):
        return None
    return (
        "holds dates that are not all written alike, or with a year of two digits (such as "
        f"{', '.join(dates[:3])}): write them all as 2024-03-31"
    )


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
