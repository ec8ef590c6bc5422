"""What words mean: a missing value, a number that is not read, a date, or another spelling of a word."""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from importlib import resources

from pace.tables.dates import LIKE_DATES

MEANINGS = tomllib.loads((resources.files("pace.tables") / "meanings.toml").read_text("utf-8"))
MISSING = tuple[str, ...](MEANINGS["missing"])
WITH_UNIT = re.compile(r"[+-]?\d[\d.,]*\s*([%°][^\s\d]*|[^\W\d_][^\s\d]*)")  # 5 mg, 12 %, 37 °C
LIKE_NUMBER = re.compile(r"\W*\d[\d\W]*(?:[eE][+-]?\d+)?")  # €1.50, 120/80, 12:30
SPREADSHEET = re.compile(r"=.+|#{4,}|#(REF|BEZUG|VALUE|WERT|NAME|DIV/0|NUM|ZAHL|NULL)[!?]")
FEW = 3  # different words or numbers; fewer show no pattern


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
    whole = {name: integer(name) for name in names}
    if any(value is None for value in whole.values()):
        return sorted(whole)
    return sorted(whole, key=lambda name: (whole[name] or 0, name))


def integer(cell: str) -> int | None:
    """The whole number in a cell; 3.0 is 3 that passed through a spreadsheet."""
    try:
        return int(float(cell)) if float(cell).is_integer() else None
    except (ValueError, OverflowError):
        return None
