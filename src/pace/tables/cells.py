"""What a cell is that is no number: nothing, a date or a word.

Dates become days since 2000-01-01: 2024-03-31, 31.03.2024 and, where the order shows, 31/03/2024.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import date

MISSING: tuple[str, ...] = (  # in any case
    "", "na", "n/a", "n.a.", "nan", "null", "none", "#n/a", "#nv", "?", "-", "--", "–", "—", "leer",
    "(leer)", "fehlt", "missing",
)  # fmt: skip

FIRST_DAY = date(2000, 1, 1).toordinal()
TIME = r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?(?:Z|[+-]\d{2}:?\d{2})?)?"
ISO = re.compile(rf"(\d{{4}})-(\d{{1,2}})-(\d{{1,2}}){TIME}")
POINTS = re.compile(rf"(\d{{1,2}})\.(\d{{1,2}})\.(\d{{4}}){TIME}")
SLASHES = re.compile(rf"(\d{{1,2}})/(\d{{1,2}})/(\d{{4}}){TIME}")
DATES = (ISO, POINTS, SLASHES)
SHORT_YEAR = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{2}")  # 31.3.24
WITH_UNIT = re.compile(r"[+-]?\d[\d.,]*\s*(%|[^\W\d_][^\s\d]*)")  # 5 mg, 12 %
FEW = 3  # different words; fewer show no pattern


def missing_among(cells: Collection[str], words: Sequence[str] = MISSING) -> tuple[str, ...]:
    """The words that mean a missing value among these cells: beside a `+`, a `-` is a result."""
    return tuple(word for word in words if word != "-" or "+" not in cells)


def are_dates(cells: Collection[str]) -> bool:
    """Whether all of these look like dates, of one form."""
    return bool(cells) and any(all(map(form.fullmatch, cells)) for form in DATES)


def unclear_dates(cells: Collection[str], column: str) -> str | None:
    """A sentence, if day and month could be exchanged in every cell: 03/04/2024."""
    dates = [match for cell in cells if (match := SLASHES.fullmatch(cell))]
    if not dates or any(int(match[1]) > 12 or int(match[2]) > 12 for match in dates):
        return None
    return (
        f"column {column!r} has dates whose day and month cannot be told apart: write them as "
        "2024-03-31"
    )


def parse_dates(cells: Sequence[str]) -> list[float | None]:
    """Days since 2000-01-01 with the part of the day; None where a cell is no date."""
    slashes = (match for cell in cells if (match := SLASHES.fullmatch(cell)))
    month_first = any(int(match[2]) > 12 for match in slashes)
    return [_parse_date(cell, month_first) for cell in cells]


def _parse_date(cell: str, month_first: bool) -> float | None:
    if match := ISO.fullmatch(cell):
        year, month, day = match.groups()[:3]
    elif match := POINTS.fullmatch(cell):
        day, month, year = match.groups()[:3]
    elif match := SLASHES.fullmatch(cell):
        day, month, year = match.groups()[:3]
        day, month = (month, day) if month_first else (day, month)
    else:
        return None
    hours, minutes, seconds = (float(part or 0) for part in match.groups()[3:])
    try:
        days = date(int(year), int(month), int(day)).toordinal() - FIRST_DAY
    except ValueError:
        return None
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
    if len(words) < FEW or not units:
        return None
    unit, count = units.most_common(1)[0]
    return unit if 2 * count > len(words) else None


def spelt_alike(words: Iterable[str]) -> list[list[str]]:
    """Groups of words that differ in case, spaces or accents only: most often each is one word."""
    groups: dict[str, set[str]] = {}
    for word in words:
        plain = "".join(unicodedata.normalize("NFKD", word).casefold().split())
        groups.setdefault(plain, set()).add(word)
    return [sorted(group) for group in groups.values() if len(group) > 1]


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
