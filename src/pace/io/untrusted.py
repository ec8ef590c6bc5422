"""What comes from outside: regular files of a bounded size, and text that parses soon or is refused.

The parsers of JSON and TOML go one call deeper for each bracket, Python's TOML parser takes time
quadratic in the parts of a dotted key, and hexadecimal integers have no limit of digits. None of
what we read is deep or has long words outside quotes, so such text is refused before it is parsed.
"""

import errno
import json as _json
import os
import re
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from pace.errors import FileError, SizeError

DEPTH = 32  # of brackets
PARTS = 8  # of a dotted key in TOML
OPEN_QUOTE = "Illegal character '\\n'", "a quote is opened and not closed on its line"  # tomllib's
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


def open_regular(path: Path) -> BinaryIO:
    """The file, open for reading bytes; OSError of a folder, FIFO, socket or device.

    A FIFO would be waited for, a device has no end. The kind is asked of the open descriptor, so a
    file that is swapped between a look and the opening gains nothing.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def size_of(opened: BinaryIO) -> int:
    return os.fstat(opened.fileno()).st_size


def read(path: Path, limit: int) -> bytes:
    """All bytes of a file that has at most `limit` of them; FileError, and none is read, if more."""
    with open_regular(path) as opened:
        if (size := size_of(opened)) > limit:
            raise FileError(f"{path} has {size:,} bytes, expected at most {limit:,}")
        return opened.read(limit)


def read_exact(path: Path, size: int) -> bytes:
    """All bytes of a file of this size; SizeError, and none is read, if it has another."""
    try:
        with open_regular(path) as opened:
            if (actual := size_of(opened)) != size:
                raise SizeError(f"{path.name} has {actual:,} bytes, expected exactly {size:,}")
            return opened.read(size)
    except OSError as error:
        raise FileError(f"{path.name} cannot be read: {error.strerror}") from error


def read_head(path: Path, count: int) -> bytes:
    """The first bytes of a file, up to `count`."""
    with open_regular(path) as opened:
        return opened.read(count)


def same(path: Path, content: bytes) -> bool:
    return read_head(path, len(content) + 1) == content


def json(content: bytes | str, *, pairs: Callable[[list[tuple[str, Any]]], Any] = dict) -> Any:
    """The value of a JSON text; `pairs` makes each object of its members."""
    text = content if isinstance(content, str) else _decoded(content)
    if text.count("[") + text.count("{") > DEPTH:
        _check_shape(JSON_TOKEN, text)
    return _json.loads(text, object_pairs_hook=pairs)


def toml(content: bytes) -> dict[str, Any]:
    """The table of a TOML text in UTF-8, with the mark that some editors put before it or without."""
    text = _decoded(content)
    _check_shape(TOML_TOKEN, text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(str(error).replace(*OPEN_QUOTE)) from None


def _check_shape(pattern: re.Pattern[str], text: str) -> None:
    """Refuse deep nesting, long dotted keys and long words outside quotes."""
    depth = parts = 0
    for match in pattern.finditer(text):
        token, first = match[0], match[0][0]
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


def _decoded(content: bytes) -> str:
    """UTF-8; the error is without the content, which Python's own carries and prints whole."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not text: byte {error.start} is not {error.encoding}") from None
