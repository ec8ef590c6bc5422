"""A user's tables, one reader with two back ends: CSV with the core install, Parquet with `report`.

Rows are counted as an editor or a spreadsheet shows them: the header of a CSV file is row 1. A
Parquet file has no header row, so its first row is 1.
"""

import codecs
import csv
import re
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from pace.errors import GraphError, SettingError, did_you_mean, needs_extra
from pace.io import one_line, open_regular, read_head, size_of
from pace.tables.cells import ArrowCells, Numbers, Words, parse_columns, plain_cells
from pace.tables.problems import MOST_COLUMNS, Problems, check_choice, listed

if TYPE_CHECKING:
    from pace.tables.mapping import Rule

CHUNK = 2**15  # cells of CSV in memory as text at a time, or one row
STREAMED = 2**17  # rows of a block of a table that is too large to be read at once
DELIMITERS = ",;\t|"
UTF8, WINDOWS, LATIN = "utf-8-sig", "cp1252", "latin-1"
WINDOWS_NOTE = "not UTF-8, so it was read as Windows-1252: look at the umlauts and accents"
GARBLED = re.compile("Ã[\u0080-\u00bf\u0152-\u0192\u2013-\u2122]")  # `ö` that was encoded twice, Ã¶
INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad"))

ROWS, CELLS, UNPACKED = 2**20, 2**26, 2**28  # of any Parquet file, and 1, 64 and 256 a byte of it
UNREAD = ("list<", "large_list<", "fixed_size_list<", "struct<", "map<", "duration", "time32", "time64",
          "binary", "large_binary")  # fmt: skip
ROW_NUMBERS = re.compile(r"|__index_level_\d+__|Unnamed: \d+")  # as pandas calls its index

Read = tuple[Sequence[int], dict[str, Sequence[str]]]  # row numbers, and columns as text


class TableFile(ABC):
    """A table whose header has been read."""

    columns: list[str]
    delimiter = ","
    notes: Sequence[str] = ()

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name
        self.conversions: dict[str, Rule] = {}  # of columns that a mapping makes numbers of

    @abstractmethod
    def read(self, columns: Sequence[str], problems: Problems) -> Read: ...


class CsvFile(TableFile):
    """CSV with a header: `,`, `;`, `|` or tabs between cells, in UTF-8 or in what Excel writes.

    A first line `sep=;` names the delimiter. Text that is not UTF-8 is read as Windows-1252, and that
    is noted; all is brought to Unicode's NFC without invisible letters.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.encoding = _encoding(path)
        self.notes = [WINDOWS_NOTE] if self.encoding in (WINDOWS, LATIN) else []
        self.skipped = 0  # lines before the header
        self.delimiter = self._find_delimiter()
        self.columns = next(self._records())[1]

    def read(self, columns: Sequence[str], problems: Problems) -> Read:
        records, rows = self._rows(problems), array("q")
        text = {name: Words() for name in columns}
        while chunk := list(islice(records, max(1, CHUNK // len(self.columns)))):
            numbers, cells = zip(*chunk, strict=True)
            rows.extend(numbers)
            for name, column in zip(self.columns, zip(*cells, strict=True), strict=True):
                if name in text:
                    text[name].extend(plain_cells(column))
        return rows, dict(text)

    def _rows(self, problems: Problems) -> Iterator[tuple[int, list[str]]]:
        """The rows below the header, each as wide as it; a row that is not is a problem."""
        records, width, lacking = self._records(), len(self.columns), 0
        next(records)
        for row, cells in records:
            if len(cells) != width:
                wrong = f"has {len(cells)} cells, the header has {width} columns"
                problems.add_broken(self.name, row, wrong)
                lacking += max(0, width - len(cells))
                if lacking > 2**16:  # cells, each of which would be filled in
                    problems.add(self.name, None, f"too many cells are lacking up to row {row}")
                    problems.stop()
            yield row, cells if len(cells) == width else (cells + [""] * width)[:width]

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Each row's number and cells, the header first; blank lines are no rows."""
        with self._open() as lines:
            for _ in range(self.skipped):
                lines.readline()
            plain = (s if s.isascii() else normalize("NFC", s).translate(INVISIBLE) for s in lines)
            reader = csv.reader(plain, delimiter=self.delimiter, strict=True)
            try:
                yield 1 + self.skipped, [*map(one_line, next(reader))]
                for cells in reader:
                    if any(cells):
                        yield self.skipped + reader.line_num, cells
            except csv.Error as error:
                wrong = f"row {self.skipped + reader.line_num} is not CSV ({error})"
                raise GraphError(f"{self.name} {wrong}: check its quotes") from error

    def _find_delimiter(self) -> str:
        """What a line `sep=;` says, else what occurs most often in the header."""
        with self._open() as lines:
            line, following = lines.readline().strip(), lines.readline().strip()
        if not line:
            raise GraphError(f"{self.name} is empty, or its first line is: it names the columns")
        named = line.strip('"')
        if not named.lower().startswith("sep=") or len(named) > 5:
            return max(DELIMITERS, key=line.count)
        delimiter = named[4:] or "\t"  # which was stripped from the end of the line
        if delimiter not in DELIMITERS or not following:
            raise GraphError(f"{self.name}: after sep= and one of {DELIMITERS!r} come the columns")
        self.skipped = 1
        return delimiter

    def _open(self) -> TextIOWrapper:
        return TextIOWrapper(open_regular(self.path), newline="", encoding=self.encoding)


def _encoding(path: Path) -> str:
    """UTF-8 if all of it is, UTF-16 if it says so, else Windows-1252; what is no text is refused."""
    wrong = f"{path.name} is not text: save it as CSV (UTF-8)"
    marked = read_head(path, 2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    for encoding in ("utf-16",) if marked else (UTF8, WINDOWS, LATIN):
        try:
            with TextIOWrapper(open_regular(path), encoding=encoding) as text:
                for block in iter(lambda: text.read(2**20), ""):
                    if "\0" in block:
                        raise GraphError(wrong)
                    if garbled := GARBLED.search(block):
                        twice = f"{garbled[0]!r}, text of one encoding inside another"
                        raise GraphError(f"{path.name} holds {twice}: export it again as UTF-8")
                return encoding
        except UnicodeError:
            continue
    raise GraphError(wrong)


class ParquetFile(TableFile):
    """A Parquet file.

    A run of equal cells takes next to no bytes in a file, so its rows, cells and bytes are counted in
    the footer before anything is read.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with self._opened() as file:
            self.columns = list(file.schema_arrow.names)

    def read(self, columns: Sequence[str], problems: Problems) -> Read:
        with self._opened() as file:
            table = file.read(list(columns))
            table.validate(full=True)
            return read_arrow(table, columns, self.name)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """The open file; damage may show only when it is read."""
        pyarrow = arrow()
        try:
            with open_regular(self.path) as content:
                with pyarrow.parquet.ParquetFile(content) as file:
                    _check_room(file.metadata, size_of(content), self.name)
                    texts = [f.name for f in file.schema_arrow if str(f.type).endswith("string")]
                with pyarrow.parquet.ParquetFile(content, read_dictionary=texts) as file:
                    yield file
        except (pyarrow.ArrowInvalid, OSError, UnicodeDecodeError) as error:
            wrong = f"not a Parquet file, or damaged ({error}): write it again"
            raise GraphError(f"{self.name} is {wrong}") from error


def read_arrow(table: Any, columns: Sequence[str], file: str, before: int = 0) -> Read:
    """Columns of an Arrow table: all rows of a file, or a block with so many rows `before` it."""
    for name in columns:
        if (kind := str(table.schema.field(name).type)).startswith(UNREAD):
            wrong = f"column {name!r} is of {kind}, neither text, numbers nor dates"
            raise GraphError(f"{file}: {wrong}: leave it out (--without, --features)")
    rows = range(before + 1, before + len(table) + 1)
    return rows, {name: ArrowCells(table.column(name)) for name in columns}


def arrow() -> Any:
    """`pyarrow`, with its parts that are used, or how to get it."""
    with needs_extra("Parquet needs pyarrow", "report"):
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    return pyarrow


def arrow_blocks(path: Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """The rows of a .parquet or .csv file as Arrow tables, some at a time; columns: None for all."""
    file, pyarrow = open_table(path), arrow()
    try:
        if isinstance(file, ParquetFile):
            with pyarrow.parquet.ParquetFile(path, pre_buffer=False) as opened:
                for batch in opened.iter_batches(STREAMED, columns=columns, use_threads=False):
                    yield pyarrow.Table.from_batches([batch])
            return
        assert isinstance(file, CsvFile)
        reader = pyarrow.csv.open_csv(
            path,
            pyarrow.csv.ReadOptions(
                use_threads=False, block_size=2**24, skip_rows=file.skipped, encoding=file.encoding
            ),
            pyarrow.csv.ParseOptions(delimiter=file.delimiter),
            pyarrow.csv.ConvertOptions(include_columns=columns, strings_can_be_null=False),
        )
        for batch in reader:
            yield pyarrow.Table.from_batches([batch])
    except pyarrow.ArrowException as error:
        wrong = f"cannot be read in blocks ({str(error).splitlines()[0]}): write a Parquet file"
        raise GraphError(f"{path.name} {wrong}") from error


def _check_room(footer: Any, size: int, file: str) -> None:
    """Refuse a file whose cells would take far more memory than the file takes bytes."""
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    chunks = [group.column(index) for group in groups for index in range(group.num_columns)]
    declared = {
        "rows": (footer.num_rows, ROWS + size),
        "cells": (sum(chunk.num_values for chunk in chunks), CELLS + 64 * size),
        "bytes": (sum(chunk.total_uncompressed_size for chunk in chunks), UNPACKED + 256 * size),
    }
    for unit, (count, most) in declared.items():
        if count > most:
            wrong = f"has {size:,} bytes and declares {count:,} {unit}, expected at most {most:,}"
            raise GraphError(f"{file} {wrong}: write it as several files, or as CSV")


@dataclass(frozen=True, eq=False)
class Table:
    """The columns that were asked for as text, '' where a cell is empty, and some as numbers too."""

    name: str  # of its file
    rows: Sequence[int]  # the number of each row, as people count
    text: dict[str, Sequence[str]]
    numbers: dict[str, Numbers]
    problems: Problems

    def refuse(self, index: int | None, text: str, *, kind: str = "", cell: str = "") -> None:
        """A problem of one row, or of the whole file; see `Problems.add`."""
        row = None if index is None else self.rows[index]
        self.problems.add(self.name, row, text, kind=kind, cell=cell)

    def refuse_cell(self, index: int, name: str, expected: str, wrong: str = "") -> None:
        """A cell that is not what is expected; `wrong` is what many such say of the column."""
        cell = self.text[name][index]
        value = f"is {cell!r}" if cell else "is empty"
        kind = f"{name!r} {wrong or f'is not {expected}'}"
        self.refuse(index, f"{name!r} {value}, expected {expected}", kind=kind, cell=cell)


def open_table(path: Path) -> TableFile:
    """A file whose header has been read: `columns` are the names in it."""
    if not path.is_file():
        raise GraphError(f"{path} not found: give a .csv or .parquet file")
    file: TableFile = (
        ParquetFile(path) if path.suffix.lower() in (".parquet", ".pq") else CsvFile(path)
    )
    if len(file.columns) > MOST_COLUMNS:
        count = f"{len(file.columns):,} columns, expected at most {MOST_COLUMNS:,}"
        raise GraphError(f"{path.name} has {count}: leave out those that are no features")
    counts = Counter(filter(None, file.columns))
    if twice := next((name for name, count in counts.items() if count > 1), None):
        raise GraphError(f"{path.name} has two columns called {twice!r}: rename one")
    return file


def data_columns(file: TableFile, problems: Problems, without: Collection[str] = ()) -> list[str]:
    """The columns that can hold data, leaving out those that only number the rows."""
    columns = [name for name in file.columns if name not in without]
    named = [name for name in columns if not ROW_NUMBERS.fullmatch(name)]
    if len(named) < len(columns):
        problems.notes.append(f"{file.name}: not used is a column without a name or pandas' index")
    return named


def read_table(
    file: TableFile,
    problems: Problems,
    *,
    text: Sequence[str],
    numbers: Sequence[str] = (),
    decimal: str | None = None,
) -> Table:
    """The named columns; `decimal` is comma or point, where the table does not show which."""
    check_choice("--decimal", decimal or "comma", ("comma", "point"))
    rows, cells = file.read(list(dict.fromkeys((*text, *numbers))), problems)
    converted = {name: rule for name, rule in file.conversions.items() if name in cells}
    columns = {name: cells[name] for name in numbers}
    columns |= {name: rule.numerals(cells[name]) for name, rule in converted.items()}
    notes = list[str]()
    parsed = parse_columns(columns, decimal, file.delimiter, notes)
    for name, rule in converted.items():
        values = rule.convert(cells[name], parsed[name].values)
        parsed[name] = parsed[name]._replace(values=values)
        pairs = zip(values.tolist(), cells[name], strict=True)
        cells[name] = Words(f"{value:.7g}" if value == value else cell for value, cell in pairs)
    problems.notes += [f"{file.name}: {note}" for note in (*file.notes, *notes)]
    return Table(file.name, rows, cells, parsed, problems)


def check_option(option: str, name: str, columns: Collection[str], file: str) -> None:
    """Refuse an option that names a column which the table does not have."""
    if name not in columns:
        raise SettingError(
            f"--{option} names {name!r}: {file} has no such column; {did_you_mean(name, columns)}it "
            f"has {listed(list(columns), 12)}"
        )
