"""What the words of a column most often are, when they are not words: dates, numbers, one word twice."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable

from pace.tables import dates, decimals

SHORT_YEAR = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{2}")  # 31.3.24
WITH_UNIT = re.compile(r"[+-]?\d[\d.,]*\s*(%|[^\W\d_][^\s\d]*)")  # 5 mg, 12 %
FEW = 3  # different words; of fewer nothing can be said


def not_words(words: Collection[str]) -> str | None:
    """Why a column cannot be used as it is, though its cells are no numbers and no dates of one form."""
    if len(words) < FEW:
        return None
    forms = [word for word in words if dates.is_date(word) or SHORT_YEAR.fullmatch(word)]
    if 2 * len(forms) > len(words):
        return (
            f"holds dates that are not all written alike, or with a year of two digits (such as "
            f"{', '.join(sorted(forms)[:3])}): write them all as 2024-03-31"
        )
    return None


def unit(words: Collection[str]) -> str | None:
    """The unit that stands behind the numbers of most words: `mg` of `5 mg`."""
    found = Counter(match[1] for word in words if (match := WITH_UNIT.fullmatch(word)))
    if len(words) < FEW or not found:
        return None
    usual, count = found.most_common(1)[0]
    return usual if 2 * count > len(words) else None


def is_number(word: str) -> bool:
    """Whether it is one in some notation, also in another than the column's."""
    try:
        float(word)
    except ValueError:
        return decimals.in_some_style(word)
    return True


def alike(words: Iterable[str]) -> list[list[str]]:
    """Groups of words that differ in case, spaces or accents only: most often each is one word."""
    groups: dict[str, set[str]] = {}
    for word in words:
        plain = "".join(unicodedata.normalize("NFKD", word).casefold().split())
        groups.setdefault(plain, set()).add(word)
    return [sorted(group) for group in groups.values() if len(group) > 1]
