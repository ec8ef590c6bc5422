"""A method's settings in words: `fedprox:mu=0.1`, typed by the fields of its dataclass."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import partial
from typing import Any, Union, get_args, get_origin, get_type_hints

from pace.errors import SettingError, did_you_mean

BETWEEN = "/"  # of the members of a tuple, since commas separate settings: hops=0/2
NOTHING = {"rank": "dense"}  # how None is written, where it is not `none`
RESERVED = ("name", "code")  # a job's words for which method it is
PLAIN = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


@dataclass(frozen=True)
class Setting:
    """A field of a method that can be set, or why it cannot be in words."""

    name: str
    kind: Any
    """Its type."""
    default: Any
    """MISSING where it must be given."""

    @property
    def words(self) -> str:
        """What is expected, for people; empty for what only Python can give, such as a function."""
        return in_words(self.kind, self.name)

    def __str__(self) -> str:
        default = "must be given" if self.default is MISSING else written(self.name, self.default)
        return f"{self.name} ({self.words or 'from Python only'}, {default})"


def split(text: str) -> tuple[str, dict[str, str]]:
    """`fedprox:mu=0.1` or `package.module:Name:a=1,b=2` as a name and its settings' words."""
    head, colon, tail = text.strip().rpartition(":")
    name, listed = (head, tail) if colon and "=" in tail else (text.strip(), "")
    words: dict[str, str] = {}
    for word in filter(None, listed.split(",")):
        key, equals, value = (part.strip() for part in word.partition("="))
        if not (key and equals and value):
            raise SettingError(f"{text!r} has the setting {word!r}, expected key=value")
        if key in words:
            raise SettingError(f"{text!r} sets {key} twice")
        words[key] = value
    return name, words


def together(name: str, settings: Mapping[str, Any]) -> str:
    """The other way round, with one spelling for one value."""
    words = ",".join(f"{key}={written(key, value)}" for key, value in settings.items())
    return f"{name}:{words}" if words else name


def written(key: str, value: Any) -> str:
    """A value as it is written after `=`."""
    if value is None:
        return NOTHING.get(key, "none")
    if isinstance(value, tuple | list):
        return BETWEEN.join(written(key, each) for each in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def settings_of(factory: Callable[..., Any]) -> dict[str, Setting]:
    """The settings of a method's class, or of a variant of it, in order."""
    kind = factory.func if isinstance(factory, partial) else factory
    if not is_dataclass(kind):
        return {}
    try:
        hints = get_type_hints(kind)
    except (NameError, TypeError):  # a name that is imported for type checkers only
        hints = {}
    fixed = factory.keywords if isinstance(factory, partial) else {}
    return {
        each.name: Setting(each.name, hints.get(each.name), fixed.get(each.name, _default(each)))
        for each in fields(kind)
        if each.init and each.name not in RESERVED
    }


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def typed(method: str, known: Mapping[str, Setting], given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with values of their fields' types; `given` has words, or what TOML makes of them."""
    made = {}
    for key, value in given.items():
        if key not in known:
            listed = ", ".join(map(str, known.values())) or "none"
            near = did_you_mean(key, known)
            raise SettingError(f"{method} has no setting {key!r}: {near}its settings are: {listed}")
        setting = known[key]
        if not setting.words:
            raise SettingError(
                f"{method}'s {key} cannot be said in words: set it in Python, in a class of your own"
            )
        try:
            made[key] = of_kind(value, setting.kind, key)
        except ValueError:
            raise SettingError(
                f"{method}'s {key} is {str(value)[:80]!r}, expected {setting.words}"
            ) from None
    if missing := [
        key for key, each in known.items() if each.default is MISSING and key not in made
    ]:
        example = together(method, dict.fromkeys(missing, "…"))
        raise SettingError(f"{method} needs {', '.join(missing)}: give them, as in {example}")
    return made


def of_kind(value: Any, kind: Any, key: str = "") -> Any:
    """A value of this type, or ValueError. A word is read, anything else must be of it already."""
    if options := _options(kind):
        if value is None or (
            isinstance(value, str) and value.lower() in ("none", NOTHING.get(key))
        ):
            return None
        return of_kind(value, options[0], key)
    if get_origin(kind) is tuple:
        members = value.split(BETWEEN) if isinstance(value, str) else value
        if not isinstance(members, Iterable):
            raise ValueError
        return tuple(of_kind(each, get_args(kind)[0], key) for each in members)
    if isinstance(value, str):
        return _read(value, kind)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise ValueError
    return value


def _read(word: str, kind: Any) -> Any:
    if kind is bool:
        if word.lower() not in ("true", "false"):
            raise ValueError
        return word.lower() == "true"
    if kind is float and not math.isfinite(float(word)):
        raise ValueError
    return kind(word)


def in_words(kind: Any, key: str = "") -> str:
    """A type as a person would say it; empty for one that has no words."""
    if options := _options(kind):
        inner = in_words(options[0], key)
        return f"{inner} or {NOTHING.get(key, 'none')}" if inner else ""
    if get_origin(kind) is tuple and len(get_args(kind)) == 2 and get_args(kind)[1] is ...:
        inner = PLAIN.get(get_args(kind)[0], "")
        return f"{inner}, or several with {BETWEEN} between" if inner else ""
    return PLAIN.get(kind, "") if isinstance(kind, type) else ""


def _options(kind: Any) -> list[Any]:
    """T of `T | None`."""
    if get_origin(kind) not in (Union, types.UnionType) or type(None) not in get_args(kind):
        return []
    others = [each for each in get_args(kind) if each is not type(None)]
    return others if len(others) == 1 else [object]
