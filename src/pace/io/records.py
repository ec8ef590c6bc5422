"""From TOML or JSON to a frozen dataclass and back; a mistake is answered with the key it is in.

A field is a key of the same name. Metadata say otherwise: `record_key("return")` names another key,
`OPTIONAL` leaves a field out while it has its default.

Own code: msgspec neither refuses nor renames keys of a dataclass and does not name the value it found;
cattrs turns 7 into "7" and true into 1.0. Either takes 0.1 s to import.
"""

import json
import math
import re
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pace.errors import FileError, SettingError, did_you_mean
from pace.io import untrusted

T = TypeVar("T")
OPTIONAL = {"optional": True}
PLAIN = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
UPDATE = "update PACE, pip install --upgrade pace-fgl"
LONGEST = 80  # characters of a value in a message
WIDTH = 76  # of a TOML list on one line; a longer one has a line for each item


def record_key(name: str) -> dict[str, str]:
    """Metadata of a field whose key is no Python name, such as `return`."""
    return {"key": name}


def optional(default: Any) -> Any:
    """A field that is left out of files while it has its default."""
    return field(default=default, metadata=OPTIONAL)


def plain_record(value: object) -> Any:
    """What `json.dumps` or `dump_toml` writes: a dataclass is a table of its fields, in order."""
    if is_dataclass(value) and not isinstance(value, type):
        content: dict[str, object] = {}
        for field in fields(value):
            item, factory = getattr(value, field.name), field.default_factory
            if not field.metadata.get("optional") or item != (
                field.default if factory is MISSING else factory()
            ):
                content[field.metadata.get("key", field.name)] = plain_record(item)
        return content
    if isinstance(value, Mapping):
        return {name: plain_record(item) for name, item in value.items()}
    if isinstance(value, Path):
        return str(value)
    return [plain_record(item) for item in value] if isinstance(value, list | tuple) else value


def dump_toml(content: Mapping[str, Any]) -> str:
    """TOML for people: settings, then a table for each mapping."""
    lines = []
    for key, value in content.items():
        table = isinstance(value, Mapping)
        if table:
            lines += ["", f"[{key}]"]
        for name, item in value.items() if table else [(key, value)]:
            lines.append(f"{_toml_key(name)} = {_toml(item)}")
    return "\n".join(lines) + "\n"


def _toml_key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else _toml(key)


def _toml(value: Any, *, flat: bool = False) -> str:
    """A value; `flat` inside an inline table, which a reader before TOML 1.1 wants on one line."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        pairs = (f"{_toml_key(key)} = {_toml(item, flat=True)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if not isinstance(value, list | tuple):
        return json.dumps(value)
    items = [_toml(item, flat=flat) for item in value]
    tables = bool(value) and all(isinstance(item, Mapping) for item in value)
    if flat or (not tables and sum(map(len, items)) + 2 * len(items) < WIDTH):
        return f"[{', '.join(items)}]"
    return "\n".join(["[", *(f"    {item}," for item in items), "]"])


@contextmanager
def reading(path: Path, wrong: str, remedy: str) -> Iterator[None]:
    """Whatever is wrong with a file inside the block is a FileError that ends with the `remedy`."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        reason = str(error) if isinstance(error, ValueError | TypeError) else repr(error)
        raise FileError(f"{path} is {wrong} ({reason}): {remedy}") from error


def load_toml(path: Path, limit: int, remedy: str) -> dict[str, Any]:
    """The table of a TOML file of at most `limit` bytes."""
    with reading(path, "not TOML", remedy):
        return untrusted.toml(untrusted.read(path, limit))


def other_format(found: object, expected: str, remedy: str) -> str:
    """What to say of a file's format that is not the expected one, such as `pace-job-1`."""
    stem, _, number = expected.rpartition("-")
    begin, _, other = str(found).rpartition("-")
    if begin == stem and other.isdecimal() and int(other) > int(number):
        return f"was made by a newer PACE (its format is {found!r}, {expected!r} here): {UPDATE}"
    return f"has format {found!r}, expected {expected!r}: {remedy}"


def load_record(kind: type[T], path: Path, limit: int, version: str | None = None) -> T:
    """The record of a JSON file that this software has written, with `version` as its `format`."""
    remedy = "restore it from a backup"
    with reading(path, "damaged", remedy):
        content = untrusted.json(untrusted.read(path, limit))
        if version is not None and (found := dict(content).get("format")) != version:
            raise FileError(f"{path} {other_format(found, version, remedy)}")
        return read_record(kind, content)


def read_record(kind: type[T], content: object, name: str = "it", *, strict: bool = False) -> T:
    """The dataclass that parsed TOML or JSON describes; a SettingError names the key that is wrong.

    Fields may be text, numbers, true or false, paths, literals, records, and lists, tuples, dicts and
    unions of these. `name` is what a message calls the whole, such as `the codebook`. Files that
    people write are read `strict`, without unknown keys and numbers that are not finite.
    """
    record: T = _convert(kind, content, "", name, strict)
    return record


def _convert(kind: Any, value: Any, where: str, name: str, strict: bool) -> Any:
    """The value as `kind`, or the error that names the key `where` it was found."""
    origin, parts = get_origin(kind), get_args(kind)

    def wrong(expected: str) -> SettingError:
        text = repr(value)
        short = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
        return SettingError(f"{where or name} is {short}, expected {expected}")

    def member(kind: Any, key: str, item: object) -> Any:
        return _convert(kind, item, f"{where}.{key}".lstrip("."), name, strict)

    if kind in (Any, object):
        return value
    if origin in (Union, types.UnionType):
        errors = []
        for option in parts:
            try:
                return _convert(option, value, where, name, strict)
            except SettingError as error:
                errors.append(error)
        raise errors[0]
    if is_dataclass(kind) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        if not isinstance(value, Mapping):
            raise wrong("a table")
        if is_dataclass(kind):
            return _record(kind, value, where or name, member, strict)
        return {key: member(parts[1], key, item) for key, item in value.items()}
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
        items = []
        for index, item in enumerate(value):
            title = item.get("name") if isinstance(item, Mapping) else None
            label = f"{where}[{title!r}]" if isinstance(title, str) else f"{where}[{index}]"
            items.append(_convert(kinds[index], item, label, name, strict))
        return origin(items)
    if kind is Path:
        if not isinstance(value, str) or not value:
            raise wrong("a path")
        return Path(value)
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise wrong(PLAIN.get(kind, "nothing"))
    if strict and isinstance(value, float) and not math.isfinite(value):
        raise wrong("a finite number")
    return value


def _record(
    kind: Any, value: Mapping[str, Any], name: str, member: Callable[..., Any], strict: bool
) -> Any:
    """The dataclass of a table; `member` converts the value of a key."""
    known, hints = _fields(kind)
    required = {key for key, f in known.items() if f.default is f.default_factory is MISSING}
    if absent := required - value.keys():
        raise SettingError(f"{name} has no {', '.join(sorted(absent))}")
    values: dict[str, Any] = {}
    for key, item in value.items():
        if key in known:
            values[known[key].name] = member(hints[known[key].name], key, item)
        elif strict:
            raise SettingError(
                f"{name} has the unknown key {key!r}: {did_you_mean(key, known)}"
                f"it may have {', '.join(sorted(known))}"
            )
    return kind(**values)


@cache
def _fields(kind: Any) -> tuple[dict[str, Field[Any]], dict[str, Any]]:
    """The fields by key, and the types."""
    known = {field.metadata.get("key", field.name): field for field in fields(kind) if field.init}
    return known, get_type_hints(kind)
