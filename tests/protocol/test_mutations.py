"""Valid files and messages, changed at random: each reader gives a result or a `PaceError`.

Mutations know the formats: bytes, and also values inside the JSON of a header, with everything
around them made to fit again. `make fuzz` does the same for longer, guided by coverage.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from fuzz import targets
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pace.io import untrusted
from tests.memory import MIB, peak

HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**31, 2**53, 2**63, 2**64, -(2**63), 10**30]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from([[], {}, [[]], [None], {"": ""}, ["a", 1], "../..", "F16", "I64", "\x00"]),
)
CHANGES = st.sampled_from(["set", "cut", "add", "twice"])
BYTES = st.lists(
    st.tuples(st.integers(0, 2**16), CHANGES, st.binary(max_size=9)), min_size=1, max_size=4
)


seeds = cache(targets.seeds)


def reader(name: str) -> Callable[[bytes], None]:
    return targets.TARGETS[name]


NAMES = tuple(targets.TARGETS)


def mutated(content: bytes, changes: list[tuple[int, str, bytes]]) -> bytes:
    made = bytearray(content)
    for place, kind, what in changes:
        at = place % (len(made) + 1)
        if kind == "set":
            made[at : at + len(what)] = what
        elif kind == "cut":
            del made[at : at + len(what) + 1]
        elif kind == "add":
            made[at:at] = what
        else:
            made[at:at] = made[max(0, at - 40) : at]
    return bytes(made)


@pytest.mark.fault(1)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_change_of_bytes_is_read_or_refused(name: str, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(seeds()[name]))
    reader(name)(mutated(seed, data.draw(BYTES)))


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path into a JSON value."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value if isinstance(value, list) else [])
    )
    return [at, *(path for key, each in inner for path in places(each, (*at, key)))]


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    if not path:
        return by
    made = dict(value) if isinstance(value, dict) else list(value)
    made[path[0]] = replaced(made[path[0]], path[1:], by)
    return made


def changed(value: Any, data: st.DataObject) -> bytes:
    """A JSON value with one value inside it, at any depth, replaced or a text within it changed."""
    path = data.draw(st.sampled_from(places(value)))
    by = data.draw(HOSTILE)
    found = value
    for key in path:
        found = found[key]
    if isinstance(found, str) and found.startswith("{"):  # JSON within JSON
        by = changed(json.loads(found), data).decode()
    return json.dumps(replaced(value, path, by)).encode()


VALUES = (
    *(
        "0",
        "-1",
        "0.5",
        "1e308",
        "nan",
        "inf",
        "9000",
        "99999999999999999999",
        "true",
        "2024-01-01",
    ),
    *('""', '"x"', "[]", "[1]", "[nan]", "[[]]", "{a = 1}", '["north", 1]'),
)
JSONS = {"partition": 0, "journal": 0, "model": 1}  # name -> bytes before the JSON
TENSORS = {"kept": 0, "graph": 0, "model": 1}


@pytest.mark.fault(1, 2)
@pytest.mark.parametrize("name", JSONS)
@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_value_in_a_json_file_is_read_or_refused(name: str, data: st.DataObject) -> None:
    skip = JSONS[name]
    seed = seeds()[name][0]
    reader(name)(seed[:skip] + changed(json.loads(seed[skip:]), data))


@pytest.mark.fault(1, 2, 4, 5)
@pytest.mark.parametrize("name", TENSORS)
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_value_in_a_header_of_tensors_is_read_or_refused(
    name: str, data: st.DataObject
) -> None:
    skip = TENSORS[name]
    seed = seeds()[name][2 if name == "model" else 0]
    length = int.from_bytes(seed[skip : skip + 8], "little")
    header = changed(json.loads(seed[skip + 8 : skip + 8 + length]), data)
    body = seed[skip + 8 + length :]
    reader(name)(seed[:skip] + len(header).to_bytes(8, "little") + header + body)


@pytest.mark.fault(15)
@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_value_in_a_job_is_refused(data: st.DataObject) -> None:
    """With a right last line, too: whoever changes a job can also compute its digest."""
    from pace.jobs.job import digest

    text = seeds()["job"][0].decode()
    lines = [place for place, line in enumerate(text.splitlines()) if " = " in line]
    made = text.splitlines()
    place = data.draw(st.sampled_from(lines[:-1]))
    value = data.draw(st.sampled_from(VALUES))
    made[place] = f"{made[place].partition(' = ')[0]} = {value}"
    found = untrusted.toml("\n".join(made).encode())
    found.pop("signed-off")
    signed = re.sub(r'sha256 = "\w+"', f'sha256 = "{digest(found)}"', "\n".join(made))
    reader("job")("\n".join(made).encode())
    reader("job")(signed.encode())


@pytest.mark.fault(2)
@pytest.mark.parametrize("name", NAMES)
def test_no_page_of_brackets_or_zeros_takes_memory(name: str) -> None:
    def read() -> None:
        for content in (b"[" * 10**6, b'{"a":' * 10**5, bytes(10**6), b"\xff" * 10**6):
            reader(name)(content)
            reader(name)((len(content).to_bytes(8, "little")) + content)

    reader(name)(b"")
    assert peak(read) < 128 * MIB


@pytest.mark.parametrize("parse", [untrusted.json, untrusted.toml])
def test_binary_in_place_of_text_is_told_without_showing_it(
    parse: Callable[[bytes], object],
) -> None:
    with pytest.raises(ValueError, match="it is not text: byte 2 is not utf-8") as caught:
        parse(b"{\n\xff" + b"secret" * 1000)
    assert len(repr(caught.value)) < 100
