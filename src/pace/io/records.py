"""From TOML, JSON or text to typed values and back; a mistake is answered with the key it is in.

A field is a key of the same name. Metadata say otherwise: `record_key("return")` names another key,
`OPTIONAL` leaves a field out while it has its default. Settings in text, `fedprox:mu=0.1`, are typed
by the fields of a dataclass or a function's parameters.

Own code: msgspec neither refuses nor renames keys of a dataclass and does not name the value it found;
cattrs turns 7 into "7" and true into 1.0. Either takes 0.1 s to import.
"""

import inspect
import json
import math
import re
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache, partial
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
BETWEEN = "/"  # of the members of a tuple, since commas separate settings: hops=0/2
EMPTY = inspect.Parameter.empty  # the default of a setting that must be given
NOTHING = {"rank": "dense"}  # how None is written, where it is not `none`


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
        if version is not None and (stated := dict(content).get("format")) != version:
            raise FileError(f"{path} {other_format(stated, version, remedy)}")
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
    by_key, hints = _fields(kind)
    required = {key for key, f in by_key.items() if f.default is f.default_factory is MISSING}
    if absent := required - value.keys():
        raise SettingError(f"{name} has no {', '.join(sorted(absent))}")
    values: dict[str, Any] = {}
    for key, item in value.items():
        if key in by_key:
            values[by_key[key].name] = member(hints[by_key[key].name], key, item)
        elif strict:
            raise SettingError(
                f"{name} has the unknown key {key!r}: {did_you_mean(key, by_key)}"
                f"it may have {', '.join(sorted(by_key))}"
            )
    return kind(**values)


@cache
def _fields(kind: Any) -> tuple[dict[str, Field[Any]], dict[str, Any]]:
    """The fields by key, and the types."""
    by_key = {field.metadata.get("key", field.name): field for field in fields(kind) if field.init}
    return by_key, get_type_hints(kind)


@dataclass(frozen=True)
class Setting:
    """What can be set, in text unless `expected` is empty."""

    name: str
    kind: Any  # its type
    default: Any  # EMPTY where it must be given

    @property
    def expected(self) -> str:
        """The type in words; empty for what only Python can give, such as a function."""
        return _in_words(self.kind, self.name)

    @property
    def default_text(self) -> str:
        """The default as it is written, or that there is none."""
        return "must be given" if self.default is EMPTY else written(self.name, self.default)

    def __str__(self) -> str:
        return f"{self.name} ({self.expected or 'from Python only'}, {self.default_text})"


def split_settings(text: str) -> tuple[str, dict[str, str]]:
    """`fedprox:mu=0.1` or `package.module:Name:a=1,b=2` as a name and the texts of its settings."""
    head, colon, tail = text.strip().rpartition(":")
    name, listed = (head, tail) if colon and "=" in tail else (text.strip(), "")
    settings: dict[str, str] = {}
    for item in filter(None, listed.split(",")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not (key and equals and value):
            raise SettingError(f"{text!r} has the setting {item!r}, expected key=value")
        if key in settings:
            raise SettingError(f"{text!r} sets {key} twice")
        settings[key] = value
    return name, settings


def join_settings(name: str, settings: Mapping[str, Any]) -> str:
    """The reverse of `split_settings`, with one spelling for one value."""
    listed = ",".join(f"{key}={written(key, value)}" for key, value in settings.items())
    return f"{name}:{listed}" if listed else name


def written(key: str, value: Any) -> str:
    """A value as it is written after `=`; a function by its name."""
    if value is None:
        return NOTHING.get(key, "none")
    if isinstance(value, tuple | list):
        return BETWEEN.join(written(key, member) for member in value)
    text = str(getattr(value, "__name__", value))
    return text.lower() if isinstance(value, bool) else text


def settings_of(factory: Callable[..., Any], common: Collection[str] = ()) -> dict[str, Setting]:
    """The settings of a class, a function or a variant of one, in order; `common` are none."""
    kind = factory.func if isinstance(factory, partial) else factory
    if not (is_dataclass(kind) or inspect.isfunction(kind)):
        return {}
    try:
        hints = get_type_hints(kind)
    except (NameError, TypeError):  # a name that is imported for type checkers only
        hints = {}
    return {
        name: Setting(name, hints.get(name), part.default)
        for name, part in inspect.signature(factory).parameters.items()
        if name not in common and part.kind in (part.POSITIONAL_OR_KEYWORD, part.KEYWORD_ONLY)
    }


def typed(name: str, settings: Mapping[str, Setting], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given settings with values of their types; `given` has text, or what TOML makes of it."""
    values = {}
    for key, value in given.items():
        if key not in settings:
            listed = ", ".join(map(str, settings.values())) or "none"
            near = did_you_mean(key, settings)
            raise SettingError(f"{name} has no setting {key!r}: {near}its settings are: {listed}")
        setting = settings[key]
        if not setting.expected:
            raise SettingError(
                f"{name}'s {key} cannot be said in words: give it a type, as in {key}: float, or set it "
                "in Python"
            )
        try:
            values[key] = _of_kind(value, setting.kind, key)
        except ValueError:
            raise SettingError(
                f"{name}'s {key} is {str(value)[:80]!r}, expected {setting.expected}"
            ) from None
    required = [key for key, setting in settings.items() if setting.default is EMPTY]
    if missing := [key for key in required if key not in values]:
        example = join_settings(name, dict.fromkeys(missing, "…"))
        raise SettingError(f"{name} needs {', '.join(missing)}: give them, as in {example}")
    return values


def _of_kind(value: Any, kind: Any, key: str) -> Any:
    """A value of this type, or ValueError. Text is read, anything else must be of it already."""
    text = isinstance(value, str)
    if inner := _optional(kind):
        none = value is None or (text and value.lower() in ("none", NOTHING.get(key)))
        return None if none else _of_kind(value, inner, key)
    if get_origin(kind) is tuple:
        members = value.split(BETWEEN) if text else value
        if not isinstance(members, Iterable):
            raise ValueError
        return tuple(_of_kind(member, get_args(kind)[0], key) for member in members)
    if text and kind is bool:
        value = {"true": True, "false": False}.get(value.lower())
    elif text or (kind is float and type(value) is int):
        value = kind(value)
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise ValueError
    return value


def _in_words(kind: Any, key: str) -> str:
    """A type as a person would say it; empty for one that has no words."""
    if inner := _optional(kind):
        expected = _in_words(inner, key)
        return expected and f"{expected} or {NOTHING.get(key, 'none')}"
    if get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
        member = PLAIN.get(get_args(kind)[0], "")
        return member and f"{member}, or several with {BETWEEN} between"
    return PLAIN.get(kind, "") if isinstance(kind, type) else ""


def _optional(kind: Any) -> Any:
    """T of `T | None`; None for other types."""
    if get_origin(kind) not in (Union, types.UnionType) or type(None) not in get_args(kind):
        return None
    others = [option for option in get_args(kind) if option is not type(None)]
    return others[0] if len(others) == 1 else object
