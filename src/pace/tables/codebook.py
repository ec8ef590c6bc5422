"""A codebook: how the columns of a table become features, the same at every site.

number      (value - centre) / scale, one feature
flag        0 or 1, one feature
date        days since 2000-01-01, then as a number
category    one feature for each of `values`, and `ward=other` for every other word

A missing number is `fill`, before scaling; with `indicator`, one more feature (`age=missing`) is 1
there. A missing word is `ward=missing` with `indicator`, else `ward=other`. What has no place is
refused.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from pace.errors import FileError, GraphError, SettingError
from pace.io import atomic, optional, records
from pace.tables.dates import show_day
from pace.tables.problems import MOST_COLUMNS, check_choice, listed
from pace.tables.words import MISSING

OTHER, ABSENT = "other", "missing"
BOTH = "both"
DIRECTIONS = (BOTH, "keep")  # of edges

T = TypeVar("T", bound="Described")
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


class Described:
    """What is known of columns and written to a TOML file: a codebook, a proposal or a mapping."""

    FORMAT: ClassVar[str]
    HEAD: ClassVar[str]  # comments at the beginning of the file
    TITLE: ClassVar[str]  # what a message calls it
    REMEDY: ClassVar[str]  # what to do where a file is none
    DAMAGE: ClassVar[str] = ""  # what to do where a file that people do not edit is wrong
    columns: tuple[Any, ...]

    def render(self) -> str:
        content = {"format": self.FORMAT, **records.plain_record(self)}
        return f"{self.HEAD}\n{records.dump_toml(content)}"


@dataclass(frozen=True)
class Codebook(Described):
    """What sites agree on about their tables."""

    FORMAT = "pace-codebook-1"
    TITLE = "the codebook"
    REMEDY = "make one with `pace codebook merge`"
    HEAD = """\
# How the columns of everybody's table of nodes become features. Read it and change what is wrong:
# kinds, values, centre and scale, fill and indicator can be given by hand. Then
# `pace new job.pace --codebook THIS_FILE` puts it into a job, where it stays as it is.
"""

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
        if not 0 < (count := len(self.columns)) <= MOST_COLUMNS:
            raise SettingError(f"the codebook has {count} columns, expected 1 to {MOST_COLUMNS:,}")
        special = {self.label: "label", self.id: "id"}
        for column in self.columns:
            if (problem := column.problem) is not None:
                raise SettingError(f"column {column.name!r} {problem}")
            if column.name in special:
                raise SettingError(f"column {column.name!r} is the {special[column.name]} too")
        refuse_doubles("column", (column.name for column in self.columns))
        refuse_doubles("feature", self.features)
        refuse_doubles("class", self.classes)
        if not self.classes or "" in self.classes:
            raise SettingError("the codebook names no classes, or one without a name: list all")

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.features)

    def as_table(self) -> tuple[list[str], list[list[str]]]:
        rows = []
        for column in self.columns:
            if column.kind == "category":
                becomes = listed(column.values) + " + other" * column.other
                unmarked = "as other" if column.other else "refused"
                missing = "marked" if column.indicator else unmarked
            else:
                show = show_day if column.kind == "date" else "{:g}".format
                scaled = f"(value - {show(column.centre)}) / {column.scale:g}"
                becomes = "as it is" if (column.centre, column.scale) == (0, 1) else scaled
                missing = "refused" if column.fill is None else show(column.fill)
                missing += ", marked" * column.indicator
            rows.append([column.name, column.kind, str(len(column.features)), becomes, missing])
        return ["Column", "Kind", "Features", "Becomes", "If missing"], rows


def refuse_doubles(kind: str, names: Iterable[str]) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise SettingError(f"there is the {kind} {twice[0]!r} twice: rename one")


def write_columns(path: Path, record: Described) -> None:
    """Write a file for people to read; one that they may have edited is never replaced."""
    content = record.render().encode()
    if record.DAMAGE:
        atomic.write(path, content)
    elif not atomic.create(path, content):
        raise FileError(f"{path} already exists: choose another name or move it")


def read_columns(path: Path, *kinds: type[T]) -> T:
    """The record of a file, edited or not, which is of one of these kinds."""
    last = kinds[-1]
    content = records.load_toml(path, 2**24, last.REMEDY)
    written = content.pop("format", None)
    kind = next((kind for kind in kinds if written == kind.FORMAT), None)
    if kind is None:
        raise GraphError(f"{path} {records.other_format(written, last.FORMAT, last.REMEDY)}")
    try:
        return records.read_record(kind, content, kind.TITLE, strict=True)
    except SettingError as error:
        wrong = GraphError if kind.DAMAGE else SettingError
        raise wrong(f"{path}: {error}{kind.DAMAGE}") from None
