"""Dates as days since 2000-01-01: 2024-03-31, 31.03.2024 and, where the order shows, 31/03/2024."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import date

FIRST = date(2000, 1, 1).toordinal()
TIME = r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?(?:Z|[+-]\d{2}:?\d{2})?)?"
ISO = re.compile(rf"(\d{{4}})-(\d{{1,2}})-(\d{{1,2}}){TIME}")
POINTS = re.compile(rf"(\d{{1,2}})\.(\d{{1,2}})\.(\d{{4}}){TIME}")
SLASHES = re.compile(rf"(\d{{1,2}})/(\d{{1,2}})/(\d{{4}}){TIME}")


def are_dates(cells: Collection[str]) -> bool:
    """Whether all of these look like dates, of one form."""
    return bool(cells) and any(all(map(form.fullmatch, cells)) for form in (ISO, POINTS, SLASHES))


def is_date(cell: str) -> bool:
    """Whether this looks like a date, of any form."""
    return any(form.fullmatch(cell) for form in (ISO, POINTS, SLASHES))


def unclear(cells: Collection[str]) -> bool:
    """Whether day and month could be exchanged in every cell: 03/04/2024."""
    found = [match for cell in cells if (match := SLASHES.fullmatch(cell))]
    return bool(found) and all(int(match[1]) <= 12 and int(match[2]) <= 12 for match in found)


def days(cells: Sequence[str]) -> list[float | None]:
    """Days since 2000-01-01 with the part of the day; None where a cell is no date."""
    found = [match for cell in cells if (match := SLASHES.fullmatch(cell))]
    month_first = any(int(match[2]) > 12 for match in found)
    return [_days(cell, month_first) for cell in cells]


def _days(cell: str, month_first: bool) -> float | None:
    if match := ISO.fullmatch(cell):
        year, month, day = match[1], match[2], match[3]
    elif match := POINTS.fullmatch(cell):
        day, month, year = match[1], match[2], match[3]
    elif match := SLASHES.fullmatch(cell):
        first, second, year = match[1], match[2], match[3]
        month, day = (first, second) if month_first else (second, first)
    else:
        return None
    hours, minutes, seconds = (float(part or 0) for part in match.groups()[3:])
    try:
        whole = date(int(year), int(month), int(day)).toordinal() - FIRST
    except ValueError:
        return None
    return whole + (hours + (minutes + seconds / 60) / 60) / 24


def day(number: float) -> str:
    """The date that a number of days stands for."""
    return date.fromordinal(FIRST + round(number)).isoformat()
