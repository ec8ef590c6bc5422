"""Dates, as days since 2000-01-01.

Read are 2024-03-31, 31.03.2024, 20240331 and, where the order shows, 31/03/2024; with a time after it.
"""

import math
import re
from collections.abc import Collection, Sequence
from datetime import date
from typing import Any

import numpy as np

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


def parse_dates(cells: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
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
