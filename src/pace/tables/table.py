"""Tables of a user's: CSV with the core install, Parquet with the extra `report`.

Rows are counted as an editor or a spreadsheet shows them: the header of a CSV file is row 1. A
Parquet file has no header row, so its first row is 1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pace.errors import GraphError, SettingError, did_you_mean
from pace.tables.csv_file import CsvFile
from pace.tables.numbers import Numbers, has_marks, parse_columns
from pace.tables.parquet import ParquetFile
from pace.tables.problems import Problems, listed

ROW_NUMBERS = re.compile(r"|__index_level_\d+__|Unnamed: \d+")  # as pandas calls its index

TableFile = CsvFile | ParquetFile


@dataclass(frozen=True, eq=False)
class Table:
    """The columns that were asked for: some as text, '' where a cell is empty, some as numbers."""

    file: str
    rows: Sequence[int]  # the number of each row, as people count
    text: dict[str, list[str]]
    numbers: dict[str, Numbers]
    problems: Problems
    notes: list[str] = field(default_factory=list)

    def cells(self, column: str) -> list[str]:
        """A column as words."""
        if column in self.text:
            return self.text[column]
        numbers = self.numbers[column]
        return [numbers.text.get(row, f"{value:g}") for row, value in enumerate(numbers.values)]

    def refuse(self, index: int | None, text: str, *, kind: str = "", cell: str = "") -> None:
        """A problem of one row, or of the whole file; see `Problems.add`."""
        row = None if index is None else self.rows[index]
        self.problems.add(self.file, row, text, kind=kind, cell=cell)

    def refuse_cell(
        self, index: int, column: str, cell: str, expected: str, empty: str = ""
    ) -> None:
        """A cell that is not what is expected; `empty` says what to do where the value is missing."""
        found = f"is {cell!r}" if cell else "is empty"
        kind = f"{column!r} is empty{empty}" if empty else f"{column!r} is not {expected}"
        self.refuse(index, f"{column!r} {found}, expected {expected}", kind=kind, cell=cell)


def open_table(path: Path) -> TableFile:
    """A file whose header has been read: `columns` are the names in it."""
    if not path.is_file():
        raise GraphError(f"{path} not found: give a .csv or .parquet file")
    file = ParquetFile(path) if path.suffix.lower() in (".parquet", ".pq") else CsvFile(path)
    counts = Counter(filter(None, file.columns))
    if twice := next((name for name, count in counts.items() if count > 1), None):
        raise GraphError(f"{path.name} has two columns called {twice!r}: rename one")
    return file


def data_columns(file: TableFile, notes: list[str], without: Collection[str] = ()) -> list[str]:
    """The columns that can hold data, leaving out those that only number the rows."""
    columns = [name for name in file.columns if name not in without]
    named = [name for name in columns if not ROW_NUMBERS.fullmatch(name)]
    if len(named) < len(columns):
        notes.append(f"{file.name}: not used is a column without a name, such as pandas' index")
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
    rows, words, parsed = file.read(text, numbers, problems)
    as_text = {name: parsed[name] for name in numbers if file.is_text(name)}
    notes = list(file.notes)
    if as_text and (decimal or has_marks(as_text.values())):
        _, cells, _ = file.read(list(as_text), (), Problems())
        parsed |= parse_columns(cells, decimal, file.delimiter, notes)
    notes = [f"{file.name}: {note}" for note in notes]
    return Table(file.name, rows, words, parsed, problems, notes=notes)


def check_option(option: str, name: str, columns: Collection[str], file: str) -> None:
    """Refuse an option that names a column which the table does not have."""
    if name not in columns:
        raise SettingError(
            f"--{option} names {name!r}: {file} has no such column; {did_you_mean(name, columns)}it "
            f"has {listed(list(columns), 12)}"
        )
