"""A codebook: how the columns of a table become features, the same at every site.

    label = "department"
    classes = ["cardiology", "neurology"]
    columns = [
        {name = "age", kind = "number", centre = 61.2, scale = 17.4, fill = 61.2, indicator = true},
        {name = "ward", kind = "category", values = ["day", "icu"], other = true},
    ]

number      (value - centre) / scale, one feature
flag        0 or 1, one feature
date        days since 2000-01-01, then as a number
category    one feature for each of `values`, and `ward=other` for every other word

A missing number is `fill`, before scaling; with `indicator`, one more feature (`age=missing`) is 1
there. A missing word is `ward=missing` with `indicator`, else `ward=other`. What has no place is
refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from pace.errors import FileError, GraphError, SettingError
from pace.io import atomic, optional, records
from pace.tables.cells import MISSING
from pace.tables.problems import MOST_COLUMNS, check_choice

CODEBOOK_FORMAT = "pace-codebook-1"
LARGEST_FILE = 16 * 2**20  # bytes
OTHER, ABSENT = "other", "missing"
BOTH = "both"
DIRECTIONS = (BOTH, "keep")  # of edges
HEAD = """\
# How the columns of everybody's table of nodes become features. Read it and change what is wrong:
# kinds, values, centre and scale, fill and indicator can be given by hand. Then
# `pace new job.pace --codebook THIS_FILE` puts it into a job, where it stays as it is.
"""

T = TypeVar("T")
Kind = Literal["number", "flag", "category", "date"]
AS_TEXT = ("category", "date")  # kinds whose cells are read as text


@dataclass(frozen=True)
class Column:
    """How one column becomes features."""

    name: str  # as the header has it
    kind: Kind  # number, flag, category or date
    values: tuple[str, ...] = optional(())  # categories, in the order of their features
    other: bool = optional(False)  # any other word is the feature `other`; if not, it is refused
    centre: float = optional(0.0)  # subtracted before scaling
    scale: float = optional(1.0)  # what a number is divided by
    fill: float | None = optional(None)  # the value of a missing number or date, before scaling
    indicator: bool = optional(False)  # one more feature marks missing values

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features."""
        if self.kind == "category":
            return tuple(f"{self.name}={word}" for word in self.words)
        return (self.name, f"{self.name}={ABSENT}") if self.indicator else (self.name,)

    @property
    def words(self) -> tuple[str, ...]:
        """Of a category: its values, then `other` and `missing` where it has them."""
        more = [OTHER] * self.other + [ABSENT] * self.indicator
        return tuple(dict.fromkeys((*self.values, *more)))

    @property
    def problem(self) -> str | None:
        """Why it cannot be used."""
        count = len(self.values)
        if self.kind != "category":
            if self.values or self.other:
                return f"is a {self.kind}: only a category has values"
            if self.scale <= 0:
                return f"has the scale {self.scale:g}, expected more than 0"
            if self.indicator and self.fill is None:
                return "has an indicator and no fill: say what a missing value is"
        elif not 0 < count <= MOST_COLUMNS:
            return f"has {count} values, expected 1 to {MOST_COLUMNS:,}"
        elif unusable := [word for word in self.values if not word or word != word.strip()]:
            return f"has the value {unusable[0]!r}, expected a word"
        elif len(set(self.values)) < count:
            return "has a value twice: list each once"
        elif self.fill is not None:
            return "is a category: mark missing values with indicator = true"
        return None


@dataclass(frozen=True)
class Codebook:
    """What sites agree on about their tables."""

    label: str  # the column with the class
    classes: tuple[str, ...]  # in the order of their numbers
    id: str = "id"  # the column with node ids
    missing: tuple[str, ...] = MISSING  # what a cell without a value may say, in any case
    weight: str = optional("")  # the column of the edges with weights; if empty, all weigh the same
    directions: str = optional(BOTH)  # both: edges go both ways; keep: each keeps its direction
    warnings: tuple[str, ...] = optional(())  # what looked wrong; settled ones are deleted by hand
    columns: tuple[Column, ...] = field(kw_only=True)  # in the order of their features

    def __post_init__(self) -> None:
        check_choice("directions", self.directions, DIRECTIONS)
        count = len(self.columns)
        if not 0 < count <= MOST_COLUMNS:
            raise SettingError(f"the codebook has {count} columns, expected 1 to {MOST_COLUMNS:,}")
        special = {self.label: "label", self.id: "id"}
        for column in self.columns:
            if (problem := column.problem) is not None:
                raise SettingError(f"column {column.name!r} {problem}")
            if column.name in special:
                raise SettingError(
                    f"column {column.name!r} is the {special[column.name]}: it cannot be a feature too"
                )
        refuse_repeated("column", (column.name for column in self.columns))
        refuse_repeated("feature", self.features)
        refuse_repeated("class", self.classes)
        if not self.classes or "" in self.classes:
            raise SettingError("the codebook names no classes, or one without a name: list all")

    @property
    def features(self) -> tuple[str, ...]:
        """The names of all features, in order."""
        return tuple(name for column in self.columns for name in column.features)

    def plain(self) -> dict[str, Any]:
        """As a file has it."""
        return dict(records.plain_record(self))


def refuse_repeated(kind: str, names: Iterable[str]) -> None:
    """Refuse a name that occurs twice."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise SettingError(f"there is the {kind} {twice[0]!r} twice: rename one")


def write_codebook(path: Path, book: Codebook) -> None:
    """Write a new file; one that people may have edited is never replaced."""
    write_new(path, f"{HEAD}\n{records.dump_toml({'format': CODEBOOK_FORMAT, **book.plain()}, {})}")


def write_new(path: Path, content: str) -> None:
    """Write a file that people will edit; none is replaced."""
    if not atomic.create(path, content.encode()):
        raise FileError(f"{path} already exists: choose another name or move it")


def read_codebook(path: Path) -> Codebook:
    """The codebook of a file, edited or not."""
    remedy = "make one with `pace codebook merge`"
    return read_columns(Codebook, path, CODEBOOK_FORMAT, remedy, name="the codebook")


def read_columns(kind: type[T], path: Path, version: str, remedy: str, *, name: str) -> T:
    """The codebook, mapping or proposal of a file, which a message calls `name`."""
    content = records.load_toml(path, LARGEST_FILE, remedy)
    if (found := content.pop("format", None)) != version:
        raise GraphError(f"{path} {records.other_format(found, version, remedy)}")
    try:
        return records.read_record(kind, content, name, strict=True)
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from None
