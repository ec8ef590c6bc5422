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

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pace.errors import SettingError, did_you_mean

KINDS = ("number", "flag", "category", "date")
MISSING = (  # in any case
    "", "na", "n/a", "n.a.", "nan", "null", "none", "#n/a", "#nv", "?", "-", "--", "–", "—", "leer",
    "(leer)", "fehlt", "missing",
)  # fmt: skip
MINUS = ("-", "+")  # a result, where both occur
OTHER, ABSENT = "other", "missing"
BOTH = "both"
DIRECTIONS = (BOTH, "keep")  # of edges
MOST = 100_000  # columns, and categories of one


@dataclass(frozen=True)
class Column:
    """How one column becomes features."""

    name: str
    """As the header has it."""
    kind: str
    """number, flag, category or date."""
    values: tuple[str, ...] = ()
    """Categories, in the order of their features."""
    other: bool = False
    """Whether any other word is the feature `other`; if not, it is refused."""
    centre: float = 0.0
    """Subtracted before scaling."""
    scale: float = 1.0
    """What a number is divided by."""
    fill: float | None = None
    """What stands for a missing number or date, before scaling."""
    indicator: bool = False
    """Whether one more feature says that the value was missing."""

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features."""
        if self.kind != "category":
            more = (f"{self.name}={ABSENT}",) if self.indicator else ()
            return (self.name, *more)
        return tuple(f"{self.name}={word}" for word in self.words)

    @property
    def words(self) -> tuple[str, ...]:
        """Of a category: its values, then `other` and `missing` where it has them."""
        more = [OTHER] * self.other + [ABSENT] * self.indicator
        return tuple(dict.fromkeys((*self.values, *more)))

    @property
    def fillable(self) -> bool:
        """Whether a missing value has a place."""
        if self.kind == "category":
            return self.indicator or self.other
        return self.fill is not None

    def plain(self) -> dict[str, object]:
        """What differs from the default, as a file has it."""
        listed = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in listed.items()
            if value != Column.__dataclass_fields__[name].default
        }


@dataclass(frozen=True)
class Codebook:
    """What sites agree on about their tables."""

    columns: tuple[Column, ...]
    """In the order of their features."""
    label: str
    """The column with the class."""
    classes: tuple[str, ...]
    """In the order of their numbers."""
    id: str = "id"
    """The column with node ids."""
    missing: tuple[str, ...] = MISSING
    """What stands in a cell without a value, in any case."""
    weight: str = ""
    """The column of the edges with their weights; if empty, all weigh the same."""
    directions: str = BOTH
    """Whether every edge goes both ways, or keeps its direction: both or keep."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of all features, in order."""
        return tuple(name for column in self.columns for name in column.features)

    def is_missing(self, cell: str) -> bool:
        return cell.lower() in self.missing

    def plain(self) -> dict[str, object]:
        """As a file has it."""
        return {
            "label": self.label,
            "id": self.id,
            "classes": list(self.classes),
            "missing": list(self.missing),
            **({"weight": self.weight} if self.weight else {}),
            **({} if self.directions == BOTH else {"directions": self.directions}),
            "columns": [column.plain() for column in self.columns],
        }


def missing_in(cells: Collection[str], words: Sequence[str] = MISSING) -> tuple[str, ...]:
    """The words that mean a missing value among these cells: beside a `+`, a `-` is a result."""
    return tuple(word for word in words if word != MINUS[0] or MINUS[1] not in cells)


def from_plain(found: Mapping[str, Any]) -> Codebook:
    """The codebook of a file's content; a mistake is answered by the column it is in."""
    known = {field.name for field in fields(Codebook)}
    _known(found, known, "the codebook")
    for key in ("columns", "label", "classes"):
        if key not in found:
            raise SettingError(f"the codebook has no {key!r}: it needs columns, label and classes")
    columns = found["columns"]
    if not isinstance(columns, list) or not all(isinstance(each, Mapping) for each in columns):
        raise SettingError("the codebook's columns are not a list of tables, such as {name = …}")
    return Codebook(
        tuple(map(_column, columns)),
        _text(found["label"], "label"),
        _texts(found["classes"], "classes"),
        _text(found.get("id", "id"), "id"),
        tuple(word.lower() for word in _texts(found.get("missing", MISSING), "missing")),
        _text(found.get("weight", ""), "weight"),
        _text(found.get("directions", BOTH), "directions"),
    )


def _column(found: Mapping[str, Any]) -> Column:
    name = _text(found.get("name"), "a column's name")
    where = f"column {name!r}"
    known = {field.name for field in fields(Column)}
    _known(found, known, where)
    settings: dict[str, Any] = {"kind": _text(found.get("kind"), f"the kind of {where}")}
    if "values" in found:
        settings["values"] = _texts(found["values"], f"the values of {where}")
    for key in ("other", "indicator"):
        if key in found:
            if not isinstance(found[key], bool):
                raise SettingError(f"{key} of {where} is {found[key]!r}, expected true or false")
            settings[key] = found[key]
    for key in ("centre", "scale", "fill"):
        if key in found:
            settings[key] = _number(found[key], f"{key} of {where}")
    return Column(name, **settings)


def _known(found: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in found:
        if key not in known:
            raise SettingError(
                f"{where} has the unknown key {key!r}: {did_you_mean(key, known)}"
                f"it may have {', '.join(sorted(known))}"
            )


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise SettingError(f"{what} is {value!r}, expected text")
    return value


def _texts(value: Any, what: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise SettingError(f"{what} is {value!r}, expected a list of texts")
    return tuple(value)


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SettingError(f"{what} is {value!r}, expected a finite number")
    return float(value)


def _check(book: Codebook) -> None:
    if book.directions not in DIRECTIONS:
        raise SettingError(f"directions is {book.directions!r}, expected {' or '.join(DIRECTIONS)}")
    if not 0 < len(book.columns) <= MOST:
        raise SettingError(f"the codebook has {len(book.columns)} columns, expected 1 to {MOST:,}")
    for column in book.columns:
        _check_column(column, book)
    _once([column.name for column in book.columns], "column")
    _once(list(book.features), "feature")
    _once(list(book.classes), "class")
    if not book.classes or "" in book.classes:
        raise SettingError("the codebook names no classes, or one without a name: list them all")
    special = {book.label: "label", book.id: "id"}
    for column in book.columns:
        if column.name in special:
            raise SettingError(
                f"column {column.name!r} is the {special[column.name]}: it cannot be a feature too"
            )


def _check_column(column: Column, book: Codebook) -> None:
    where = f"column {column.name!r}"
    if column.kind not in KINDS:
        raise SettingError(
            f"{where} is of kind {column.kind!r}, expected one of {', '.join(KINDS)}"
        )
    if column.kind == "category":
        if not column.values or len(column.values) > MOST:
            raise SettingError(f"{where} has {len(column.values)} values, expected 1 to {MOST:,}")
        if unusable := [word for word in column.values if not word or word != word.strip()]:
            raise SettingError(f"{where} has the value {unusable[0]!r}, expected a word")
        if len(set(column.values)) < len(column.values):
            raise SettingError(f"{where} has a value twice: list each once")
        if column.fill is not None:
            raise SettingError(f"{where} is a category: mark missing values with indicator = true")
    elif column.values or column.other:
        raise SettingError(f"{where} is a {column.kind}: only a category has values")
    elif column.scale <= 0:
        raise SettingError(f"scale of {where} is {column.scale:g}, expected more than 0")
    elif column.indicator and column.fill is None:
        raise SettingError(f"{where} has an indicator and no fill: say what a missing value is")


def _once(names: list[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SettingError(f"the codebook has the {what} {name!r} twice: rename one")
        seen.add(name)
