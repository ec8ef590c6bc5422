"""From TOML or JSON to a frozen dataclass and back; a mistake is answered with the key it is in.

A field is a key of the same name. Metadata say otherwise: `record_key("return")` names another key,
`OPTIONAL` leaves a field out while it has its default, `REST` marks a dict of all keys that no other
field has.

Own code, after trying two libraries: msgspec neither refuses nor renames keys of a dataclass and does
not name the value it found; cattrs turns 7 into "7" and true into 1.0. Either takes 0.1 s to import.
"""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pace.errors import FileError, SettingError, did_you_mean
from pace.io import regular, untrusted

T = TypeVar("T")
OPTIONAL, REST = {"optional": True}, {"rest": True}
TYPES: dict[object, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    int: ((int,), "a whole number"),
    float: ((float, int), "a number"),
    bool: ((bool,), "true or false"),
    type(None): ((type(None),), "nothing"),
}
LONGEST = 80  # characters of a value in a message


def record_key(name: str) -> dict[str, str]:
    """Metadata of a field whose key is no Python name, such as `return`."""
    return {"key": name}


def optional(default: Any) -> Any:
    """A field that is left out of files while it has its default."""
    return field(default=default, metadata=OPTIONAL)


def plain_record(value: object) -> Any:
    """What `json.dumps` or `toml.dump` writes: a dataclass is a table of its fields, in order."""
    if is_dataclass(value) and not isinstance(value, type):
        content: dict[str, object] = {}
        for field in fields(value):
            item = getattr(value, field.name)
            if field.metadata.get("rest"):
                content |= plain_record(item)
            elif not (field.metadata.get("optional") and item == _default(field)):
                content[_key(field)] = plain_record(item)
        return content
    if isinstance(value, Mapping):
        return {name: plain_record(item) for name, item in value.items()}
    if isinstance(value, Path):
        return str(value)
    return [plain_record(item) for item in value] if isinstance(value, list | tuple) else value


def read_record(kind: type[T], content: object, name: str = "it", *, strict: bool = False) -> T:
    """The dataclass that parsed TOML or JSON describes.

    Fields may be text, numbers, true or false, paths, literals, records, and lists, tuples, dicts and
    unions of these.

    Args:
        name: what a message calls the whole, such as `the codebook`.
        strict: refuse unknown keys and numbers that are not finite, for files that people write;
            otherwise unknown keys are passed over.

    Raises:
        SettingError: a key is absent or unknown, or its value is of another type.
    """
    record: T = _convert(kind, content, "", name, strict)
    return record


def load_toml(path: Path, limit: int, remedy: str) -> dict[str, Any]:
    """The table of a TOML file of at most `limit` bytes; a FileError ends with the `remedy`."""
    try:
        return untrusted.toml(regular.read(path, limit))
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error
    except FileError:
        raise
    except ValueError as error:
        raise FileError(f"{path} is not TOML ({error}): {remedy}") from error


def load_record(kind: type[T], path: Path, limit: int, version: str | None = None) -> T:
    """The record of a JSON file that this software has written.

    Raises:
        FileError: a disk has damaged the file since, or its `format` is not this `version`.
    """
    try:
        content = untrusted.json(regular.read(path, limit))
        if version is not None and (found := dict(content).get("format")) != version:
            raise ValueError(f"its format is {found!r}, expected {version!r}")
        return read_record(kind, content)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise FileError(f"{path} is damaged ({error}): restore it from a backup") from error


def _convert(kind: Any, value: object, where: str, name: str, strict: bool) -> Any:
    """The value as `kind`, or the error that names the key `where` it was found."""
    origin, parts = get_origin(kind), get_args(kind)

    def wrong(expected: str) -> SettingError:
        return SettingError(f"{where or name} is {_short(value)}, expected {expected}")

    if kind in (Any, object):
        return value
    if origin in (Union, types.UnionType):
        return _first(parts, value, where, name, strict)
    if is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise wrong("a table")
        return _record(kind, value, where, name, strict)
    if origin is Literal:
        if value not in parts:
            raise wrong(f"one of {', '.join(map(str, parts))}")
        return value
    if origin in (list, tuple):
        if not isinstance(value, list | tuple):
            raise wrong("a list")
        kinds = parts if len(parts) > 1 and parts[1] is not ... else (parts[0],) * len(value)
        if len(kinds) != len(value):
            raise wrong(f"a list of {len(kinds)}")
        labels = [_label(item, index) for index, item in enumerate(value)]
        items = zip(kinds, value, labels, strict=True)
        return origin([_convert(k, item, f"{where}[{at}]", name, strict) for k, item, at in items])
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise wrong("a table")
        return {
            key: _convert(parts[1], item, f"{where}.{key}".lstrip("."), name, strict)
            for key, item in value.items()
        }
    if kind is Path:
        if not isinstance(value, str) or not value:
            raise wrong("a path")
        return Path(value)
    allowed, expected = TYPES[kind]
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        raise wrong(expected)
    if strict and isinstance(value, float) and not math.isfinite(value):
        raise wrong("a finite number")
    return value


def _record(kind: Any, value: Mapping[str, Any], where: str, name: str, strict: bool) -> Any:
    known, rest, hints = _fields(kind)
    if absent := [key for key, field in known.items() if key not in value and _needed(field)]:
        raise SettingError(f"{where or name} has no {', '.join(sorted(absent))}")
    spare = {key: item for key, item in value.items() if key not in known}
    if spare and strict and rest is None:
        unknown = next(iter(spare))
        raise SettingError(
            f"{where or name} has the unknown key {unknown!r}: {did_you_mean(unknown, known)}"
            f"it may have {', '.join(sorted(known))}"
        )
    found = {
        field.name: _convert(
            hints[field.name], value[key], f"{where}.{key}".lstrip("."), name, strict
        )
        for key, field in known.items()
        if key in value
    }
    if rest is not None:
        found[rest] = _convert(hints[rest], spare, where, name, strict)
    return kind(**found)


@cache
def _fields(kind: Any) -> tuple[dict[str, Field[Any]], str | None, dict[str, Any]]:
    """The fields by key, the one of all other keys, and the types."""
    rest = [field.name for field in fields(kind) if field.metadata.get("rest")]
    known = {_key(field): field for field in fields(kind) if field.name not in rest and field.init}
    return known, rest[0] if rest else None, get_type_hints(kind)


def _first(kinds: Iterable[Any], value: object, where: str, name: str, strict: bool) -> Any:
    """The value as the first kind it can be; the first error says what is expected."""
    first: SettingError | None = None
    for kind in kinds:
        try:
            return _convert(kind, value, where, name, strict)
        except SettingError as error:
            first = first or error
    raise cast(SettingError, first)


def _needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _key(field: Field[Any]) -> str:
    key: str = field.metadata.get("key", field.name)
    return key


def _label(item: object, index: int) -> str:
    """An item of a list by its name, where it has one."""
    name = item.get("name") if isinstance(item, Mapping) else None
    return repr(name) if isinstance(name, str) else str(index)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
