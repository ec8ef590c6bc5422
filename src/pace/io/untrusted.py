"""Text from outside, parsed so that whatever it says the worst is a `ValueError`.

The parsers of JSON and TOML go one call deeper for each bracket; a page of brackets would end in a
`RecursionError`, which nobody expects of a parser.
"""

import json as _json
import tomllib
from collections.abc import Callable
from typing import Any


def json(content: bytes | str, *, pairs: Callable[[list[tuple[str, Any]]], Any] = dict) -> Any:
    """The value of a JSON text; `pairs` makes each object of its members."""
    try:
        return _json.loads(content, object_pairs_hook=pairs)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise _not_text(error) from None


def toml(content: bytes) -> dict[str, Any]:
    """The table of a TOML text in UTF-8, with the mark that some editors put before it or without."""
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise _not_text(error) from None


def _not_text(error: UnicodeDecodeError) -> ValueError:
    """Without the content, which Python's own error carries and prints whole."""
    return ValueError(f"it is not text: byte {error.start} is not {error.encoding}")
