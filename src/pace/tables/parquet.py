"""Parquet, with the extra `report`.

A run of equal cells takes next to no bytes in a file, so its rows, cells and bytes are counted in the
footer before anything is read, and a text that occurs many times is held once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pace.errors import GraphError, SettingError
from pace.io.untrusted import open_regular, size_of
from pace.tables.numbers import Numbers, parse_cells
from pace.tables.problems import Problems

ROWS = 2**20  # and one more for each byte of the file
CELLS, CELLS_PER_BYTE = 2**26, 64
UNPACKED, UNPACKED_PER_BYTE = 2**28, 256  # bytes
TEXTS = ("string", "large_string", "binary", "large_binary")
T = TypeVar("T")
NUMBER = re.compile(r"u?int\d+|halffloat|float|double")


class ParquetFile:
    """A Parquet file; a column of lists is read as several columns, `name.0`, `name.1`, …"""

    delimiter = ","
    notes: Sequence[str] = ()

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name
        schema = self._look(lambda file: file.schema_arrow)
        self.types = {field.name: str(field.type) for field in schema}
        self.columns: list[str] = list(schema.names)

    def is_text(self, column: str) -> bool:
        """Whether a column is stored as text, in which numbers may be written with marks."""
        return self.types[column].startswith(("string", "large_string", "dictionary"))

    def read(
        self, text: Sequence[str], numbers: Sequence[str], problems: Problems
    ) -> tuple[Sequence[int], dict[str, list[str]], dict[str, Numbers]]:
        """The row numbers, and columns as text and as numbers."""
        names = list(dict.fromkeys((*text, *numbers)))
        return self._look(lambda file: self._convert(file.read(names), text, numbers, problems))

    def _convert(
        self, table: Any, text: Sequence[str], numbers: Sequence[str], problems: Problems
    ) -> tuple[Sequence[int], dict[str, list[str]], dict[str, Numbers]]:
        parsed: dict[str, Numbers] = {}
        for name in numbers:
            column = table.column(name)
            if self.types[name].startswith(("list<", "large_list<", "fixed_size_list<")):
                parsed |= self._read_lists(name, column.to_pylist(), problems)
            elif NUMBER.fullmatch(self.types[name]):
                with np.errstate(over="ignore"):
                    values = column.to_numpy().astype(np.float32)
                empty = np.flatnonzero(column.is_null().to_numpy())
                parsed[name] = Numbers(values, dict.fromkeys(empty.tolist(), ""))
            else:
                parsed[name] = parse_cells(_words(column))
        words = {name: _words(table.column(name)) for name in text}
        return range(1, len(table) + 1), words, parsed

    def _read_lists(self, name: str, cells: list[Any], problems: Problems) -> dict[str, Numbers]:
        """A column of equally long lists as that many columns."""
        width = next((len(cell) for cell in cells if cell), 0)
        values = np.full((len(cells), width), np.nan)
        if not width and cells:
            problems.add(self.name, None, f"column {name!r} is empty in every row: leave it out")
        for index, cell in enumerate(cells if width else ()):
            items = cell or []
            if len(items) != width:
                wrong = f"{name!r} holds {len(items)} numbers, others {width}"
                problems.add(self.name, index + 1, wrong, breaks=True)
            elif not all(isinstance(item, int | float | None) for item in items):
                wrong = f"{name!r} holds a list of something else than numbers"
                problems.add(self.name, index + 1, wrong, breaks=True)
            else:
                values[index] = [np.nan if item is None else item for item in items]
        with np.errstate(over="ignore"):
            narrow = values.astype(np.float32)
        return {f"{name}.{item}": Numbers(narrow[:, item], {}) for item in range(width)}

    def _look(self, look: Callable[[Any], T]) -> T:
        """What a look into the file gives; damage may show only then."""
        try:
            from pyarrow import ArrowInvalid, parquet
        except ImportError:
            raise SettingError("Parquet needs pyarrow: pip install 'pace-fgl[report]'") from None
        try:
            with open_regular(self.path) as content:
                with parquet.ParquetFile(content) as file:
                    _check_room(file.metadata, size_of(content), self.name)
                    texts = [field.name for field in file.schema_arrow if str(field.type) in TEXTS]
                with parquet.ParquetFile(content, read_dictionary=texts) as file:
                    return look(file)
        except (ArrowInvalid, OSError, UnicodeDecodeError) as error:
            raise GraphError(
                f"{self.name} is not a Parquet file, or damaged ({error}): write it again"
            ) from error


def _check_room(footer: Any, size: int, file: str) -> None:
    """Refuse a file whose cells would take far more memory than the file takes bytes."""
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    chunks = [group.column(index) for group in groups for index in range(group.num_columns)]
    unpacked = sum(chunk.total_uncompressed_size for chunk in chunks)
    for unit, count, most in (
        ("rows", footer.num_rows, ROWS + size),
        ("cells", sum(chunk.num_values for chunk in chunks), CELLS + CELLS_PER_BYTE * size),
        ("bytes", unpacked, UNPACKED + UNPACKED_PER_BYTE * size),
    ):
        if count > most:
            raise GraphError(
                f"{file} has {size:,} bytes and declares {count:,} {unit}, expected at most "
                f"{most:,}: write it as several files, or as CSV"
            )


def _words(column: Any) -> list[str]:
    """Cells as text; equal ones are one object."""
    dictionary = str(column.type).startswith("dictionary<")
    if "<" in str(column.type) and not dictionary:
        raise GraphError(f"a column of {column.type} is neither text nor numbers: leave it out")
    words: list[str] = []
    for chunk in column.chunks:
        if dictionary:
            values = [_word(value) for value in chunk.dictionary.to_pylist()]
            words += ["" if index is None else values[index] for index in chunk.indices.to_pylist()]
        else:
            words += map(_word, chunk.to_pylist())
    return words


def _word(cell: object) -> str:
    """A cell as CSV would have it."""
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, bool) or (isinstance(cell, float) and cell.is_integer()):
        return str(int(cell))  # an id or label that passed through floats is still the same
    return str(cell).strip()
