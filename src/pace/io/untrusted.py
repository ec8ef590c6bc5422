"""Text from outside, parsed so that whatever it says the worst is a `ValueError`, soon.

The parsers of JSON and TOML go one call deeper for each bracket, Python's TOML parser takes time
quadratic in the parts of a dotted key, and hexadecimal integers have no limit of digits. None of
what we read is deep or has long words outside quotes, so such text is refused before it is parsed.
"""

import json as _json
import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

DEPTH = 32  # of brackets
PARTS = 8  # of a dotted key in TOML
WORD = 128  # characters of a number, a bare key or a date

# Possessive quantifiers: a scan is linear whatever the text.
# Long numbers in JSON need no scan: Python itself refuses integers of more than 4,300 digits.
JSON_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
TOML_TOKEN = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:""")?'
    r"|'''(?:[^']++|'(?!''))*+(?:''')?"
    r'|"(?:[^"\\\n]++|\\.)*+"?|' + r"'[^'\n]*+'?"
    r"|\#[^\n]*+|[\[\]{}.=,\n]|[^\s\"'#\[\]{}.=,]++",
    re.DOTALL,
)


def json(content: bytes | str, *, pairs: Callable[[list[tuple[str, Any]]], Any] = dict) -> Any:
    """The value of a JSON text; `pairs` makes each object of its members."""
    text = content if isinstance(content, str) else _text(content)
    if text.count("[") + text.count("{") > DEPTH:
        _check_shape(match[0] for match in JSON_TOKEN.finditer(text))
    return _json.loads(text, object_pairs_hook=pairs)


def toml(content: bytes) -> dict[str, Any]:
    """The table of a TOML text in UTF-8, with the mark that some editors put before it or without."""
    text = _text(content)
    _check_shape(match[0] for match in TOML_TOKEN.finditer(text))
    return tomllib.loads(text)


def _check_shape(tokens: Iterator[str]) -> None:
    """Refuse deep nesting, long dotted keys and long words outside quotes."""
    depth = parts = 0
    for token in tokens:
        first = token[0]
        if first in "[{":
            depth, parts = depth + 1, 0
            if depth > DEPTH:
                raise ValueError(f"it is nested more than {DEPTH} deep")
        elif first in "]}":
            depth = max(0, depth - 1)
        elif first == ".":
            parts += 1
            if parts >= PARTS:
                raise ValueError(f"a dotted key has more than {PARTS} parts")
        elif first in "=,\n":
            parts = 0
        elif first not in "\"'#" and len(token) > WORD:
            raise ValueError(f"it has a number or bare word of {len(token):,} characters")


def _text(content: bytes) -> str:
    """UTF-8; the error is without the content, which Python's own carries and prints whole."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not text: byte {error.start} is not {error.encoding}") from None
