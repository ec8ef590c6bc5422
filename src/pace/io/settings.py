"""Settings in text: `fedprox:mu=0.1`, typed by the fields of a dataclass or a function's parameters."""

import inspect
import math
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, is_dataclass
from functools import partial
from typing import Any, Union, get_args, get_origin, get_type_hints

from pace.errors import SettingError, did_you_mean
from pace.io.records import PLAIN

BETWEEN = "/"  # of the members of a tuple, since commas separate settings: hops=0/2
NOTHING = {"rank": "dense"}  # how None is written, where it is not `none`


@dataclass(frozen=True)
class Setting:
    """What can be set, in text unless `expected` is empty."""

    name: str
    kind: Any  # its type
    default: Any  # MISSING where it must be given

    @property
    def expected(self) -> str:
        """The type in words; empty for what only Python can give, such as a function."""
        return _in_words(self.kind, self.name)

    @property
    def default_text(self) -> str:
        """The default as it is written, or that there is none."""
        return "must be given" if self.default is MISSING else written(self.name, self.default)

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
        name: Setting(
            name, hints.get(name), MISSING if part.default is part.empty else part.default
        )
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
                f"{name}'s {key} cannot be said in words: set it in Python, in a class of your own"
            )
        try:
            values[key] = _of_kind(value, setting.kind, key)
        except ValueError:
            raise SettingError(
                f"{name}'s {key} is {str(value)[:80]!r}, expected {setting.expected}"
            ) from None
    required = [key for key, setting in settings.items() if setting.default is MISSING]
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
