"""Dataclasses as JSON and back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from pace.io import records


@dataclass(frozen=True)
class Leg:
    length: float
    returned: int | None = field(metadata=records.key("return"))


@dataclass(frozen=True, kw_only=True)
class Trip:
    name: str
    legs: tuple[Leg, ...]
    by_day: dict[str, list[int]] = field(default_factory=dict)
    sealed: bool = field(default=False, metadata=records.OPTIONAL)
    others: dict[str, object] = field(default_factory=dict, metadata=records.REST)


def test_what_is_written_is_read_back_with_the_keys_in_order() -> None:
    trip = Trip(name="a", legs=(Leg(1.5, None), Leg(2, 3)), by_day={"x": [1]}, others={"z": [0]})
    content = records.plain(trip)
    assert json.dumps(content) == (
        '{"name": "a", "legs": [{"length": 1.5, "return": null}, {"length": 2, "return": 3}], '
        '"by_day": {"x": [1]}, "z": [0]}'
    )
    assert records.read(Trip, json.loads(json.dumps(content))) == trip
    assert records.plain(Trip(name="a", legs=(), sealed=True))["sealed"] is True


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": 7}, "name is 7, expected str"),
        ({"legs": 7}, "legs is 7, expected a list"),
        ({"legs": [{"return": 1}]}, r"legs\[0\] has no length"),
        ({"legs": [{"length": True, "return": 1}]}, r"legs\[0\].length is True, expected float"),
        ({"legs": [{"length": 1, "return": "x"}]}, r"legs\[0\].return is 'x', expected int"),
        ({"by_day": {"x": "ab"}}, "by_day.x is 'ab', expected a list"),
        ({"sealed": 1}, "sealed is 1, expected bool"),
        ({"name": "x" * 2, "legs": ["y" * 9000]}, r"legs\[0\] is 'y{38}…, expected an object"),
    ],
)
def test_a_value_of_another_type_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        records.read(Trip, {"name": "a", "legs": [], **change})


def test_something_else_altogether_is_named() -> None:
    with pytest.raises(ValueError, match=r"^it is \[\], expected an object$"):
        records.read(Trip, [])
    with pytest.raises(ValueError, match=r"^it has no legs, name$"):
        records.read(Trip, {})
