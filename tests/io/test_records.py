"""Dataclasses as JSON and back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from pace.errors import FileError, SettingError
from pace.io import records


@dataclass(frozen=True)
class Leg:
    length: float
    returned: int | None = field(metadata=records.record_key("return"))


@dataclass(frozen=True, kw_only=True)
class Trip:
    name: str
    legs: tuple[Leg, ...]
    by_day: dict[str, list[int]] = field(default_factory=dict)
    sealed: bool = field(default=False, metadata=records.OPTIONAL)


def test_what_is_written_is_read_back_with_the_keys_in_order() -> None:
    trip = Trip(name="a", legs=(Leg(1.5, None), Leg(2, 3)), by_day={"x": [1]})
    content = records.plain_record(trip)
    assert json.dumps(content) == (
        '{"name": "a", "legs": [{"length": 1.5, "return": null}, {"length": 2, "return": 3}], '
        '"by_day": {"x": [1]}}'
    )
    assert records.read_record(Trip, json.loads(json.dumps(content))) == trip
    assert records.plain_record(Trip(name="a", legs=(), sealed=True))["sealed"] is True


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": 7}, "name is 7, expected text"),
        ({"legs": 7}, "legs is 7, expected a list"),
        ({"legs": [{"return": 1}]}, r"legs\[0\] has no length"),
        ({"legs": [{"length": True, "return": 1}]}, r"legs\[0\].length is True, expected a number"),
        (
            {"legs": [{"length": 1, "return": "x"}]},
            r"legs\[0\].return is 'x', expected a whole number",
        ),
        ({"by_day": {"x": "ab"}}, "by_day.x is 'ab', expected a list"),
        ({"sealed": 1}, "sealed is 1, expected true or false"),
        ({"name": "x" * 2, "legs": ["y" * 9000]}, r"legs\[0\] is 'y{78}…, expected a table"),
    ],
)
def test_a_value_of_another_type_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        records.read_record(Trip, {"name": "a", "legs": [], **change})


def test_something_else_altogether_is_named() -> None:
    with pytest.raises(ValueError, match=r"^it is \[\], expected a table$"):
        records.read_record(Trip, [])
    with pytest.raises(ValueError, match=r"^it has no legs, name$"):
        records.read_record(Trip, {})


@dataclass(frozen=True)
class Column:
    name: str
    kind: Literal["number", "flag"]
    quartiles: tuple[float, float] = (0.0, 0.0)
    table: Path | None = field(default=None, metadata=records.record_key("from-table"))


@dataclass(frozen=True)
class Book:
    columns: list[Column]


AGE = {"name": "age", "kind": "number"}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"knd": 1}, r"columns\['age'\] has the unknown key 'knd': did you mean 'kind'\? it may "),
        ({"kind": "date"}, r"columns\['age'\].kind is 'date', expected one of number, flag"),
        ({"quartiles": [1]}, r"columns\['age'\].quartiles is \[1\], expected a list of 2"),
        ({"quartiles": [1, float("nan")]}, r".*quartiles\[1\] is nan, expected a finite number"),
        ({"from-table": 3}, r".*\.from-table is 3, expected a path"),
    ],
)
def test_a_strict_record_names_the_column_of_a_mistake(
    column: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingError, match=f"^{message}"):
        records.read_record(Book, {"columns": [AGE | column]}, strict=True)


def test_a_strict_record_is_read_and_written_as_it_was() -> None:
    content = {"columns": [AGE | {"quartiles": [1, 2], "from-table": "nodes.csv"}]}
    book = records.read_record(Book, content, "the codebook", strict=True)
    assert book.columns[0] == Column("age", "number", (1, 2), Path("nodes.csv"))
    assert records.plain_record(book) == content
    with pytest.raises(SettingError, match=r"^the codebook has no columns$"):
        records.read_record(Book, {}, "the codebook", strict=True)


def test_a_record_in_a_file_is_refused_when_it_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "column.json"
    path.write_text(json.dumps({"format": "column-1", **AGE, "later": 1}))
    assert records.load_record(Column, path, 1000, "column-1") == Column("age", "number")
    path.write_text('{"format": "column-2"}')
    with pytest.raises(FileError, match=r"was made by a newer PACE .*: update PACE"):
        records.load_record(Column, path, 1000, "column-1")
    path.write_text('{"format": "row-2"}')
    with pytest.raises(FileError, match="has format 'row-2', expected 'column-1': restore it"):
        records.load_record(Column, path, 1000, "column-1")
    for content in ("[]", '{"format": "column-1"}', "{"):
        path.write_text(content)
        with pytest.raises(FileError, match=r"column\.json .*: restore it from a backup"):
            records.load_record(Column, path, 1000, "column-1")
    with pytest.raises(FileError, match="cannot read"):
        records.load_record(Column, tmp_path / "absent", 1000)


def test_toml_that_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text("a = ")
    with pytest.raises(FileError, match=r"node.toml is not TOML \(.*\): make it again"):
        records.load_toml(path, 1000, "make it again")
    path.write_text("a = 1")
    assert records.load_toml(path, 1000, "make it again") == {"a": 1}
    with pytest.raises(FileError, match="has 5 bytes, expected at most 4"):
        records.load_toml(path, 4, "make it again")
