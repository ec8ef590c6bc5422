"""Dataclasses as JSON and back: one place knows how fields become keys.

A field is a key of its own name. Metadata say what is otherwise: `key("return")` names another key,
`OPTIONAL` leaves the field out of the JSON while it has its default, `REST` marks a dict of all keys
that no other field has. Keys that nothing asks for are passed over, so that a newer file can be read by
an older version.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
Reader = Callable[[object, str], Any]
OPTIONAL, REST = {"optional": True}, {"rest": True}


def key(name: str) -> dict[str, str]:
    """Metadata of a field that JSON calls otherwise, since its name is a word of Python."""
    return {"key": name}


def plain(value: object) -> Any:
    """What `json.dumps` writes: a dataclass is an object of its fields, in their order."""
    if is_dataclass(value) and not isinstance(value, type):
        content: dict[str, object] = {}
        for each in fields(value):
            item = getattr(value, each.name)
            if each.metadata.get("rest"):
                content |= plain(item)
            elif not (each.metadata.get("optional") and item == each.default):
                content[_key(each)] = plain(item)
        return content
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def read(kind: type[T], content: object) -> T:
    """The dataclass that JSON describes.

    Raises:
        ValueError: a key is absent, or its value is of another type; the sentence names both.
    """
    record: T = _reader(cast(Hashable, kind))(content, "")
    return record


@cache
def _reader(kind: Any) -> Reader:
    """Reads a value of a type: a dataclass, a number, text, or a list, dict or union of these."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind in (Any, object):
        return lambda value, where: value
    if is_dataclass(kind):
        return _record_reader(kind)
    if origin in (Union, types.UnionType):
        return _first_of([_reader(part) for part in parts])
    if origin in (list, tuple):
        return _sequence_reader(_reader(parts[0]), origin)
    if origin is not None and issubclass(origin, Mapping):
        return _dict_reader(_reader(parts[1]))
    allowed = {float: (float, int), int: (int,)}.get(kind, (kind,))

    def read_leaf(value: object, where: str) -> object:
        if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"{where or 'it'} is {_short(value)}, expected {kind.__name__}")
        return value

    return read_leaf


def _record_reader(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    named = {each.name: _key(each) for each in fields(kind) if not each.metadata.get("rest")}
    others = [each.name for each in fields(kind) if each.metadata.get("rest")]
    needed = {
        each.name
        for each in fields(kind)
        if each.default is MISSING and each.default_factory is MISSING
    }
    readers = {name: _reader(hints[name]) for name in hints}

    def read_record(value: object, where: str) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"{where or 'it'} is {_short(value)}, expected an object")
        if absent := [named[name] for name in needed if named[name] not in value]:
            raise ValueError(f"{where or 'it'} has no {', '.join(sorted(absent))}")
        found = {
            name: readers[name](value[word], f"{where}.{word}".lstrip("."))
            for name, word in named.items()
            if word in value
        }
        spare = {word: item for word, item in value.items() if word not in named.values()}
        return kind(**found, **{name: readers[name](spare, where) for name in others})

    return read_record


def _sequence_reader(read_item: Reader, kind: Callable[[list[Any]], Any]) -> Reader:
    def read_sequence(value: object, where: str) -> Any:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{where or 'it'} is {_short(value)}, expected a list")
        return kind([read_item(item, f"{where}[{place}]") for place, item in enumerate(value)])

    return read_sequence


def _dict_reader(read_item: Reader) -> Reader:
    def read_dict(value: object, where: str) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError(f"{where or 'it'} is {_short(value)}, expected an object")
        return {name: read_item(item, f"{where}.{name}") for name, item in value.items()}

    return read_dict


def _first_of(readers: list[Reader]) -> Reader:
    def read_any(value: object, where: str) -> Any:
        error = None
        for reader in readers:
            try:
                return reader(value, where)
            except ValueError as caught:
                error = error or caught  # the first says what is expected; None comes last
        raise error or ValueError(where)

    return read_any


def _key(each: Field[Any]) -> str:
    name: str = each.metadata.get("key", each.name)
    return name


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
