"""CSV with a header: commas, semicolons or tabs between cells, in UTF-8 or in what Excel writes.

A first line `sep=;`, as Excel knows it, names the delimiter. Text that is not UTF-8 is read as
Windows-1252, and that is noted. Text is brought to Unicode's NFC, so that `ü` is one letter wherever
it was typed.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO
from unicodedata import normalize

from pace.errors import GraphError
from pace.io.regular import open_regular
from pace.tables import decimals
from pace.tables.problems import Problems
from pace.tables.table import Numbers, Table, Wanted

CHUNK = 2_000  # rows in memory as text at a time
BLOCK = 2**20  # bytes that are looked at together
DELIMITERS = ",;\t"
UTF8, WINDOWS, LATIN = "utf-8-sig", "cp1252", "latin-1"


@dataclass(frozen=True)
class Dialect:
    """How a file is to be read."""

    encoding: str
    delimiter: str
    skipped: int = 0  # lines before the header

    @property
    def notes(self) -> list[str]:
        if self.encoding in (WINDOWS, LATIN):
            return ["not UTF-8, so it was read as Windows-1252: look at the umlauts and accents"]
        return []


def header(path: Path) -> list[str]:
    return next(_records(path))[1]


def read(path: Path, wanted: Wanted, problems: Problems) -> Table:
    dialect = _dialect(path)
    table = _read(path, wanted.text, wanted.numbers, problems)
    notes = [f"{path.name}: {note}" for note in dialect.notes]
    if wanted.decimal or decimals.suspicious(table.numbers.values()):
        again = _read(path, wanted.names, (), Problems())
        columns = {name: again.text.pop(name) for name in wanted.numbers}
        said: list[str] = []
        parsed = decimals.numbers(columns, wanted.decimal, dialect.delimiter, said)
        notes += [f"{path.name}: {note}" for note in said]
        return Table(table.file, table.rows, table.text, parsed, notes)
    return Table(table.file, table.rows, table.text, table.numbers, notes)


def _read(path: Path, text: Sequence[str], numbers: Sequence[str], problems: Problems) -> Table:
    records = _records(path)
    _, names = next(records)
    places = {name: place for place, name in reversed(list(enumerate(names)))}
    place = {name: places[name] for name in (*text, *numbers)}
    rows: list[int] = []
    texts: dict[str, list[str]] = {name: [] for name in text}  # each once, whatever it is for
    parts: dict[str, list[Numbers]] = {name: [Numbers.of([])] for name in numbers}
    while chunk := list(islice(records, CHUNK)):
        for index, (row, cells) in enumerate(chunk):
            if len(cells) != len(names):
                wrong = f"has {len(cells)} cells, the header has {len(names)} columns"
                problems.add(path.name, row, wrong, kind=wrong, breaks=True)
                chunk[index] = row, (cells + [""] * len(names))[: len(names)]
        columns = list(zip(*(cells for _, cells in chunk), strict=True))
        rows += [row for row, _ in chunk]
        for name in texts:
            texts[name] += map(str.strip, columns[place[name]])
        for name in numbers:
            parts[name].append(Numbers.of(columns[place[name]]))
    return Table(path.name, rows, texts, {name: Numbers.join(each) for name, each in parts.items()})


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each row's number and cells, the header first; blank lines are no rows."""
    dialect = _dialect(path)
    with _opened(path, dialect.encoding) as opened:
        for _ in range(dialect.skipped):
            opened.readline()
        reader = csv.reader(_composed(opened), delimiter=dialect.delimiter, strict=True)
        try:
            names = [name.strip() for name in next(reader)]
            yield dialect.skipped + reader.line_num, names
            for cells in reader:
                if any(cells):
                    yield dialect.skipped + reader.line_num, cells
        except UnicodeError as error:
            raise GraphError(f"{path.name} is not text ({error}): save it as UTF-8") from error
        except csv.Error as error:
            row = dialect.skipped + reader.line_num
            raise GraphError(
                f"{path.name} row {row} is not CSV ({error}): check its quotes"
            ) from error


def _opened(path: Path, encoding: str) -> TextIOWrapper:
    return TextIOWrapper(open_regular(path), newline="", encoding=encoding)


def _composed(lines: IO[str]) -> Iterator[str]:
    return (line if line.isascii() else normalize("NFC", line) for line in lines)


def _dialect(path: Path) -> Dialect:
    about = path.stat()
    return _found(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=16)
def _found(path: Path, changed: int, size: int) -> Dialect:
    encoding = _encoding(path)
    with _opened(path, encoding) as opened:
        try:
            line = opened.readline()
        except UnicodeError as error:
            raise GraphError(f"{path.name} is not text ({error}): save it as UTF-8") from error
        named = line.strip().strip('"').lower()
        if named.startswith("sep=") and len(named) <= 5:
            sep = line.strip().strip('"')[4:] or "\t"
            if sep not in DELIMITERS:
                raise GraphError(
                    f"{path.name} says that {sep!r} stands between cells, expected a comma, a "
                    "semicolon or a tab: save it again"
                )
            if not opened.readline().strip():
                raise GraphError(f"{path.name} has no line with the names of columns after sep=")
            return Dialect(encoding, sep, 1)
        if not line.strip():
            raise GraphError(
                f"{path.name} is empty, or its first line is: the first line names the columns"
            )
        return Dialect(encoding, max(DELIMITERS, key=line.count))


def _encoding(path: Path) -> str:
    """UTF-8 if all of it is, UTF-16 if it says so, else Windows-1252; what is no text is refused."""
    with open_regular(path) as opened:
        head = opened.read(4)
        if head.startswith(b"PK\x03\x04"):
            raise GraphError(
                f"{path.name} is a workbook or an archive, not text: save it as CSV (UTF-8)"
            )
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        opened.seek(0)
        decoders = {name: codecs.getincrementaldecoder(name)() for name in (UTF8, WINDOWS)}
        while block := opened.read(BLOCK):
            if b"\0" in block:
                raise GraphError(f"{path.name} is not text: save it as CSV (UTF-8)")
            for name, decoder in list(decoders.items()):
                try:
                    decoder.decode(block)
                except UnicodeDecodeError:
                    del decoders[name]
        if UTF8 in decoders:
            try:
                decoders[UTF8].decode(b"", final=True)
            except UnicodeDecodeError:
                del decoders[UTF8]
    return next(iter(decoders), LATIN)
