"""CSV with a header: commas, semicolons or tabs between cells, in UTF-8 or in what Excel writes.

A first line `sep=;`, as Excel writes it, names the delimiter. Text that is not UTF-8 is read as
Windows-1252, and that is noted. Text is brought to Unicode's NFC, so that `ü` is one letter wherever
it was typed.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from unicodedata import normalize

from pace.errors import GraphError
from pace.io.untrusted import open_regular, read_head
from pace.tables.numbers import Numbers, join_numbers, parse_cells
from pace.tables.problems import Problems

CHUNK = 2_000  # rows in memory as text at a time
BLOCK = 2**20  # characters
DELIMITERS = ",;\t"
UTF8, WINDOWS, LATIN = "utf-8-sig", "cp1252", "latin-1"
WINDOWS_NOTE = "not UTF-8, so it was read as Windows-1252: look at the umlauts and accents"


class CsvFile:
    """A CSV file: its encoding, delimiter and columns, found when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name
        self.encoding = _encoding(path)
        self.notes = [WINDOWS_NOTE] if self.encoding in (WINDOWS, LATIN) else []
        self.skipped = 0  # lines before the header
        self.delimiter = self._find_delimiter()
        self.columns = next(self._records())[1]

    def is_text(self, column: str) -> bool:
        """Whether numbers may be written with marks: in CSV, always."""
        return True

    def read(
        self, text: Sequence[str], numbers: Sequence[str], problems: Problems
    ) -> tuple[list[int], dict[str, list[str]], dict[str, Numbers]]:
        """The row numbers, and columns as text and as numbers."""
        records = self._records()
        next(records)
        width = len(self.columns)
        position = {name: index for index, name in enumerate(self.columns)}
        rows: list[int] = []
        words: dict[str, list[str]] = {name: [] for name in text}
        parts: dict[str, list[Numbers]] = {name: [parse_cells([])] for name in numbers}
        while chunk := list(islice(records, CHUNK)):
            for index, (row, cells) in enumerate(chunk):
                if len(cells) != width:
                    wrong = f"has {len(cells)} cells, the header has {width} columns"
                    problems.add(self.name, row, wrong, breaks=True)
                    chunk[index] = row, (cells + [""] * width)[:width]
            rows += [row for row, _ in chunk]
            columns = list(zip(*(cells for _, cells in chunk), strict=True))
            for name in words:
                words[name] += map(str.strip, columns[position[name]])
            for name in parts:
                parts[name].append(parse_cells(columns[position[name]]))
        return rows, words, {name: join_numbers(column) for name, column in parts.items()}

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Each row's number and cells, the header first; blank lines are no rows."""
        with self._open() as lines:
            for _ in range(self.skipped):
                lines.readline()
            composed = (line if line.isascii() else normalize("NFC", line) for line in lines)
            reader = csv.reader(composed, delimiter=self.delimiter, strict=True)
            try:
                yield 1 + self.skipped, [name.strip() for name in next(reader)]
                for cells in reader:
                    if any(cells):
                        yield self.skipped + reader.line_num, cells
            except csv.Error as error:
                row = self.skipped + reader.line_num
                raise GraphError(
                    f"{self.name} row {row} is not CSV ({error}): check its quotes"
                ) from error

    def _find_delimiter(self) -> str:
        """What a line `sep=;` says, else what occurs most often in the header."""
        with self._open() as lines:
            line, following = lines.readline().strip(), lines.readline().strip()
        if not line:
            raise GraphError(
                f"{self.name} is empty, or its first line is: the first line names the columns"
            )
        named = line.strip('"')
        if not named.lower().startswith("sep=") or len(named) > 5:
            return max(DELIMITERS, key=line.count)
        delimiter = named[4:] or "\t"  # which was stripped from the end of the line
        if delimiter not in DELIMITERS:
            raise GraphError(
                f"{self.name} says that {delimiter!r} separates cells, expected a comma, a semicolon or "
                "a tab: save it again"
            )
        if not following:
            raise GraphError(f"{self.name} has no line with the names of columns after sep=")
        self.skipped = 1
        return delimiter

    def _open(self) -> TextIOWrapper:
        return TextIOWrapper(open_regular(self.path), newline="", encoding=self.encoding)


def _encoding(path: Path) -> str:
    """UTF-8 if all of it is, UTF-16 if it says so, else Windows-1252; what is no text is refused."""
    head = read_head(path, 4)
    if head.startswith(b"PK\x03\x04"):
        raise GraphError(
            f"{path.name} is a workbook or an archive, not text: save it as CSV (UTF-8)"
        )
    marked = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16",) if marked else (UTF8, WINDOWS, LATIN):
        try:
            with TextIOWrapper(open_regular(path), encoding=encoding) as text:
                if any("\0" in block for block in iter(lambda: text.read(BLOCK), "")):
                    break
                return encoding
        except UnicodeError:
            continue
    raise GraphError(f"{path.name} is not text: save it as CSV (UTF-8)")
