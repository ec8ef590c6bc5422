import json
import tomllib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace.io import untrusted


@pytest.mark.fault(29)
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (".".join(["a"] * 2000) + " = 1", "dotted key"),
        ("[" + " . a" * 20_000 + "]", "dotted key"),
        ('x = {"a" .' + "'b' . " * 20_000 + " = 1}", "dotted key"),
        ("a = 0x" + "f" * 200_000, "200,002 characters"),
        ("a = " + "9" * 200_000, "200,000 characters"),
        ("a = " + "[" * 1000, "nested more than 32"),
        ("a = " + "{b = " * 1000, "nested more than 32"),
        ("# [[[[\na = '[[[['\n" + "[" * 40, "nested more than 32"),
    ],
)
def test_deep_or_long_toml_is_refused_before_it_is_parsed(
    content: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tomllib, "loads", None)
    with pytest.raises(ValueError, match=says):
        untrusted.toml(content.encode())


@pytest.mark.fault(29)
@pytest.mark.parametrize("content", ["[" * 10**6, '{"a":' * 10**5, '"[\\"[",' * 40 + "[{" * 17])
def test_deep_json_is_refused_before_it_is_parsed(
    content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json, "loads", None)
    with pytest.raises(ValueError, match="nested more than 32"):
        untrusted.json(content.encode())


@pytest.mark.fault(29)
def test_an_integer_of_many_digits_is_no_json() -> None:
    with pytest.raises(ValueError, match="digits"):
        untrusted.json(b"[" + b"9" * 200_000 + b"]")


@pytest.mark.parametrize("parse", [untrusted.json, untrusted.toml])
def test_brackets_and_long_words_in_texts_are_texts(parse: Callable[[bytes], object]) -> None:
    text = '[{"' * 50 + "." * 300 + "w" * 300
    content = json.dumps({"a": [text, text]})
    if parse is untrusted.toml:
        content = f"# {text}\na = [{json.dumps(text)}, {json.dumps(text)}] # {text}"
    assert parse(content.encode()) == {"a": [text, text]}


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=60))
def test_what_is_shallow_is_parsed_as_ever(value: object) -> None:
    text = json.dumps(value)
    assert untrusted.json(text.encode()) == untrusted.json(text) == value


@given(st.text(alphabet="ab\"'\\#[]{}.=,\n 1", max_size=60))
def test_the_scan_never_refuses_toml_that_is_short(text: str) -> None:
    """Nothing of at most 60 such characters is deep, so the parser alone decides."""
    short = text[:30]
    try:
        expected: object = tomllib.loads(short)
    except ValueError:
        return
    if short.count(".") < untrusted.PARTS:
        assert untrusted.toml(short.encode()) == expected
