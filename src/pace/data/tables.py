"""Tables of a user's: CSV with the core install, Parquet with the extra `report`.

Rows are counted as an editor or a spreadsheet shows them: the header of a CSV file is row 1. A
Parquet file has no header row, so its first row is 1.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from pace.data.problems import Problems
from pace.errors import GraphError, SettingError

CHUNK = 20_000  # rows of a CSV file in memory as text at a time
DELIMITERS = ",;\t"

Array = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column, or several from a list, read as numbers; NaN where a cell is none."""

    values: Array  # (rows, width)
    text: dict[int, str]  # index -> what stood in a cell that is no number

    @classmethod
    def of(cls, cells: Sequence[str]) -> Numbers:
        try:
            with np.errstate(over="ignore"):  # too large for float32: infinite, and told so
                numbers = np.fromiter(map(float, cells), np.float64, len(cells)).astype(np.float32)
            return cls(numbers[:, None], {})
        except ValueError:
            pass
        values = np.full((len(cells), 1), np.nan, np.float32)
        text = {}
        for index, cell in enumerate(cells):
            try:
                values[index] = float(cell)
            except ValueError:
                text[index] = cell.strip()
        return cls(values, text)

    @classmethod
    def join(cls, parts: Sequence[Numbers]) -> Numbers:
        text: dict[int, str] = {}
        first = 0
        for part in parts:
            text |= {first + index: cell for index, cell in part.text.items()}
            first += len(part.values)
        return cls(np.concatenate([part.values for part in parts]), text)


@dataclass(frozen=True, eq=False)
class Table:
    """The columns that were asked for: some as text, '' where a cell is empty, some as numbers."""

    file: str
    rows: list[int]  # the number of each row, as people count
    text: dict[str, list[str]]
    numbers: dict[str, Numbers]


def header(path: Path) -> list[str]:
    """The names of a table's columns."""
    if not path.is_file():
        raise GraphError(f"{path} is not there: give a .csv or .parquet file")
    names = list(_arrow(path).column_names) if _is_parquet(path) else next(_records(path))[1]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise GraphError(f"{path.name} has two columns called {twice!r}: rename one")
    return names


def read(
    path: Path, *, text: Sequence[str], numbers: Sequence[str] = (), problems: Problems
) -> Table:
    """The named columns of a table."""
    if _is_parquet(path):
        return _read_parquet(path, text, numbers, problems)
    return _read_csv(path, text, numbers, problems)


def _read_csv(path: Path, text: Sequence[str], numbers: Sequence[str], problems: Problems) -> Table:
    records = _records(path)
    _, names = next(records)
    place = {name: names.index(name) for name in (*text, *numbers)}
    rows: list[int] = []
    texts: dict[str, list[str]] = {name: [] for name in text}
    parts: dict[str, list[Numbers]] = {name: [Numbers.of([])] for name in numbers}
    while chunk := list(islice(records, CHUNK)):
        for index, (row, cells) in enumerate(chunk):
            if len(cells) != len(names):
                wrong = f"has {len(cells)} cells, the header has {len(names)} columns"
                problems.add(path.name, row, wrong, breaks=True)
                chunk[index] = row, (cells + [""] * len(names))[: len(names)]
        columns = list(zip(*(cells for _, cells in chunk), strict=True))
        rows += [row for row, _ in chunk]
        for name in text:
            texts[name] += map(str.strip, columns[place[name]])
        for name in numbers:
            parts[name].append(Numbers.of(columns[place[name]]))
    return Table(path.name, rows, texts, {name: Numbers.join(each) for name, each in parts.items()})


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each row's number and cells, the header first; blank lines are no rows."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as opened:
            line = opened.readline()
            opened.seek(0)
            if not line.strip():
                raise GraphError(f"{path.name} is empty: its first row names the columns")
            reader = csv.reader(opened, delimiter=max(DELIMITERS, key=line.count), strict=True)
            names = [name.strip() for name in next(reader)]
            yield reader.line_num, names
            for cells in reader:
                if any(cells):
                    yield reader.line_num, cells
    except UnicodeDecodeError as error:
        raise GraphError(f"{path.name} is not UTF-8 text ({error}): save it as UTF-8") from error
    except csv.Error as error:
        raise GraphError(
            f"{path.name} row {reader.line_num} is not CSV ({error}): check its quotes"
        ) from error


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")


def _arrow(path: Path, columns: Sequence[str] | None = None) -> Any:
    """A Parquet file's table, or its schema's names where no columns are asked for."""
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError:
        raise SettingError("Parquet needs pyarrow: pip install 'pace-fgl[report]'") from None
    try:
        opened = parquet.ParquetFile(path)
        if columns is None:
            return opened.schema_arrow.empty_table()
        return opened.read(columns=list(columns))
    except (ArrowInvalid, OSError) as error:
        raise GraphError(f"{path.name} is not a Parquet file ({error})") from error


def _read_parquet(
    path: Path, text: Sequence[str], numbers: Sequence[str], problems: Problems
) -> Table:
    table = _arrow(path, list(dict.fromkeys((*text, *numbers))))
    rows = list(range(1, len(table) + 1))
    texts = {name: [_say(cell) for cell in table.column(name).to_pylist()] for name in text}
    made = {}
    for name in numbers:
        cells = table.column(name).to_pylist()
        if any(isinstance(cell, list) for cell in cells):
            made[name] = _lists(cells, path.name, name, problems)
        else:
            made[name] = Numbers.of([_say(cell) for cell in cells])
    return Table(path.name, rows, texts, made)


def _say(cell: object) -> str:
    """A cell as CSV would have it."""
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, bool):
        return str(int(cell))
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))  # an id or label that passed through floats is still the same
    return str(cell).strip()


def _lists(cells: list[Any], file: str, name: str, problems: Problems) -> Numbers:
    """A column of equally long lists as that many columns."""
    width = next(len(cell) for cell in cells if isinstance(cell, list))
    values = np.full((len(cells), width), np.nan, np.float32)
    for index, cell in enumerate(cells):
        if not isinstance(cell, list) or len(cell) != width:
            size = len(cell) if isinstance(cell, list) else 0
            wrong = f"{name!r} holds {size} numbers, the first row {width}"
            problems.add(file, index + 1, wrong, breaks=True)
        else:
            values[index] = [np.nan if number is None else number for number in cell]
    return Numbers(values, {})
