"""TOML, written for people; Python reads it but does not write it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

WIDTH = 76  # of a list on one line
WRAPPED = 90  # of the lines of a longer one


def dump(content: Mapping[str, Any], comments: Mapping[str, str]) -> str:
    """Settings first, then a table for each mapping; `comments` go by `table.key`."""
    lines = []
    for key, value in content.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{key}]"]
            lines += [
                _line(name, each, comments.get(f"{key}.{name}")) for name, each in value.items()
            ]
        else:
            lines.append(_line(key, value, comments.get(key)))
    return "\n".join(lines) + "\n"


def _line(key: str, value: Any, comment: str | None) -> str:
    return f"{_key(key)} = {_value(value)}{f'  # {comment}' if comment else ''}"


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if bare else _value(key)


def _flat(value: Any) -> str:
    """A value inside an inline table, which a reader before TOML 1.1 wants on one line."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return _value(value)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        items = (f"{_key(key)} = {_flat(each)}" for key, each in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list | tuple):
        if value and all(isinstance(each, Mapping) for each in value):
            return "\n".join(["[", *(f"    {_value(each)}," for each in value), "]"])
        return _list([_value(each) for each in value])
    return json.dumps(value)


def _list(items: list[str]) -> str:
    """On one line where it fits, else many lines of many items."""
    if sum(map(len, items)) + 2 * len(items) < WIDTH:
        return f"[{', '.join(items)}]"
    rows, row = [], "   "
    for item in items:
        if len(row) + len(item) > WRAPPED:
            rows.append(row)
            row = "   "
        row += f" {item},"
    return "\n".join(["[", *rows, row, "]"])
