"""What words mean: a missing value, a date, a number that is not read, another spelling of a word.

Dates are days since 2000-01-01. Read are 2024-03-31, 31.03.2024, 20240331 and, where the order shows,
31/03/2024; with a time after it.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import date
from typing import Any

import numpy as np

MISSING: tuple[str, ...] = (  # in any case
    "", "na", "n/a", "n.a.", "nan", "null", "none", "#n/a", "#nv", "?", "-", "--", "–", "—", ".",
    "leer", "(leer)", "fehlt", "missing",
)  # fmt: skip

WITH_UNIT = re.compile(r"[+-]?\d[\d.,]*\s*([%°][^\s\d]*|[^\W\d_][^\s\d]*)")  # 5 mg, 12 %, 37 °C
LIKE_NUMBER = re.compile(r"\W*\d[\d\W]*(?:[eE][+-]?\d+)?")  # €1.50, 120/80, 12:30
SPREADSHEET = re.compile(r"=.+|#{4,}|#(REF|BEZUG|VALUE|WERT|NAME|DIV/0|NUM|ZAHL|NULL)[!?]")
FEW = 3  # different words or numbers; fewer show no pattern

FIRST_DAY = date(2000, 1, 1).toordinal()
DAY, MONTH, YEAR = r"(?P<day>\d{1,2})", r"(?P<month>\d{1,2})", r"(?P<year>\d{4})"
ZONE = r"(?: ?(?P<zone>Z|UTC|[+-]\d{2}:?\d{2}))?"
TIME = rf"(?:[T ](?P<hour>\d{{1,2}}):(?P<minute>\d{{2}})(?::(?P<second>\d{{2}}(?:\.\d+)?))?{ZONE})?"
EITHER_FIRST = re.compile(f"{DAY}(?P<mark>[/-]){MONTH}(?P=mark){YEAR}{TIME}")
DATES = (
    re.compile(f"{YEAR}(?P<mark>[/-]){MONTH}(?P=mark){DAY}{TIME}"),
    re.compile(rf"{DAY}\.{MONTH}\.{YEAR}{TIME}"),
    EITHER_FIRST,
    re.compile(
        r"(?P<year>19\d\d|20\d\d)(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])" + TIME
    ),
)
MONTHS = r"(?:jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[^\W\d_]*"
LIKE_DATES = re.compile(  # also 31.3.24, 31-Mar-2024, March 31, 2024 and 3/31/2024 1:00 PM
    rf"\d{{1,4}}([./-])\d{{1,2}}\1\d{{2,4}}\b.*|(?:\w+,? )?\d{{1,2}}[ .-]*{MONTHS}[ .,-]*\d{{2,4}}\b.*"
    rf"|{MONTHS} \d{{1,2}},? \d{{4}}\b.*",
    re.I,
)
Days = np.ndarray[Any, np.dtype[np.float64]]


def missing_among(cells: Collection[str], words: Sequence[str] = MISSING) -> tuple[str, ...]:
    """The words that mean a missing value among these cells: beside a `+`, a `-` is a result."""
    return tuple(word for word in words if word != "-" or "+" not in cells)


def not_words(words: Collection[str]) -> str | None:
    """Why a column cannot be used as words, though its cells are no numbers or dates of one form."""
    if spoilt := sorted(filter(SPREADSHEET.fullmatch, words)):
        return f"holds what a spreadsheet shows in place of a value, {spoilt[0]!r}: save it with values"
    dates = sorted(filter(LIKE_DATES.fullmatch, words))
    if len(words) < FEW or 2 * len(dates) <= len(words):
        return None
    return f"holds dates in several forms or a form that is not read, {dates[0]}: write 2024-03-31"


def like_numbers(words: Collection[str]) -> str | None:
    """One of the words, if most look like numbers with a unit or in a notation that is not read."""
    numerals = sum(LIKE_NUMBER.fullmatch(word) is not None for word in words)
    most = len(words) > 1 and 2 * numerals > len(words)
    return min(words) if most or unit_of(words) else None


def unit_of(words: Collection[str]) -> str | None:
    """The unit behind the numbers of most words: `mg` of `5 mg`."""
    units = Counter(match[1] for word in words if (match := WITH_UNIT.fullmatch(word)))
    unit, count = max(units.items(), key=lambda item: item[1], default=(None, 0))
    return unit if len(words) >= FEW and 2 * count > len(words) else None


def fold(word: str) -> str:
    """A word without case, accents and spaces."""
    letters = unicodedata.normalize("NFKD", word.casefold())
    return "".join(c for c in letters if not unicodedata.combining(c) and not c.isspace())


def alike_notes(column: str, words: Collection[str], kind: str) -> list[str]:
    """A note for each group of words that differ in case, spaces or accents only."""
    groups: dict[str, list[str]] = {}
    for word in sorted(words):
        groups.setdefault(fold(word), []).append(repr(word))
    return [
        f"{column}: {' and '.join(group)} are {len(group)} {kind}: if they are one, write them alike"
        for group in groups.values()
        if len(group) > 1
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


def are_dates(cells: Collection[str], absent: Collection[str] = ()) -> bool:
    """Whether all of these that are not absent look like dates, of one form; one at least has to."""

    def all_of(form: re.Pattern[str]) -> bool:
        present = (cell for cell in cells if cell.lower() not in absent)
        return bool(form.fullmatch(next(present, ""))) and all(map(form.fullmatch, present))

    return any(map(all_of, DATES))


def unclear_days(cells: Sequence[str]) -> str | None:
    """Why a column cannot be used as dates: none with either first shows which is the day."""
    matches = [match for match in map(EITHER_FIRST.fullmatch, cells) if match]
    if not matches or any(max(int(match["day"]), int(match["month"])) > 12 for match in matches):
        return None
    return "has dates whose day and month cannot be told apart: write them as 2024-03-31"


def parse_dates(cells: Sequence[str]) -> Days:
    """Days since 2000-01-01 with the part of the day, in UTC; NaN where a cell is no date."""
    either = (match for match in map(EITHER_FIRST.fullmatch, cells) if match)
    month_first = any(int(match["month"]) > 12 for match in either)
    matches = (next(filter(None, (form.fullmatch(cell) for form in DATES)), None) for cell in cells)
    days = (math.nan if match is None else _days(match, month_first) for match in matches)
    return np.fromiter(days, np.float64, len(cells))


def _days(match: re.Match[str], month_first: bool) -> float:
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    if month_first and match.re is EITHER_FIRST:
        month, day = day, month
    hours, minutes, seconds = (float(match[part] or 0) for part in ("hour", "minute", "second"))
    if (zone := match["zone"]) and zone[0] in "+-":
        east = -1 if zone[0] == "-" else 1
        hours, minutes = hours - east * int(zone[1:3]), minutes - east * int(zone[-2:])
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
