"""Parquet, with the extra `report`.

A run of equal cells takes next to no bytes in a file, so its rows, cells and bytes are counted in the
footer before anything is read, and a text that occurs many times is held once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pace.errors import GraphError, SettingError
from pace.io.regular import open_regular, size_of
from pace.tables import decimals
from pace.tables.problems import Problems
from pace.tables.table import Numbers, Table, Wanted

ROWS = 2**20  # and one more for each byte of the file
CELLS, CELLS_PER_BYTE = 2**26, 64
UNPACKED, UNPACKED_PER_BYTE = 2**28, 256  # bytes
TEXTS = ("string", "large_string", "binary", "large_binary")
NUMBER = re.compile(r": (u?int\d+|halffloat|float|double|bool|null)\b")


def header(path: Path) -> list[str]:
    return list(_seen(path, lambda opened: opened.schema_arrow.names))


def read(path: Path, wanted: Wanted, problems: Problems) -> Table:
    """The columns; `wanted.decimal` is for numbers that are stored as text."""
    table = _seen(path, lambda opened: opened.read(wanted.names))
    numbers = wanted.numbers
    parsed = {name: _numbers(table.column(name), path.name, name, problems) for name in numbers}
    words = {name: each for name, each in parsed.items() if _is_text(table.column(name).type)}
    notes: list[str] = []
    if wanted.decimal or decimals.suspicious(words.values()):
        cells = {name: _words(table.column(name)) for name in words}
        parsed |= decimals.numbers(cells, wanted.decimal, ",", notes)
    return Table(
        path.name,
        list(range(1, len(table) + 1)),
        {name: _words(table.column(name)) for name in wanted.text},
        parsed,
        [f"{path.name}: {note}" for note in notes],
    )


def _seen(path: Path, look: Callable[[Any], Any]) -> Any:
    """What a look into the file finds; damage may show only then."""
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError:
        raise SettingError("Parquet needs pyarrow: pip install 'pace-fgl[report]'") from None
    try:
        with open_regular(path) as file:
            with parquet.ParquetFile(file) as opened:
                _check_room(opened.metadata, size_of(file), path.name)
                texts = [field.name for field in opened.schema_arrow if str(field.type) in TEXTS]
            with parquet.ParquetFile(file, read_dictionary=texts) as opened:
                return look(opened)
    except (ArrowInvalid, OSError) as error:
        raise GraphError(
            f"{path.name} is not a Parquet file, or damaged ({error}): write it again"
        ) from error


def _check_room(footer: Any, size: int, file: str) -> None:
    """Refuse a file whose cells would take far more memory than the file takes bytes."""
    groups = [footer.row_group(place) for place in range(footer.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    counts = {
        "rows": (footer.num_rows, ROWS + size),
        "cells": (sum(chunk.num_values for chunk in chunks), CELLS + CELLS_PER_BYTE * size),
        "bytes": (
            sum(chunk.total_uncompressed_size for chunk in chunks),
            UNPACKED + UNPACKED_PER_BYTE * size,
        ),
    }
    for what, (count, most) in counts.items():
        if count > most:
            raise GraphError(
                f"{file} has {size:,} bytes and declares {count:,} {what}, expected at most "
                f"{most:,}: write it as several files, or as CSV"
            )


def _is_text(kind: Any) -> bool:
    return str(kind).startswith(("string", "large_string", "dictionary"))


def _words(column: Any) -> list[str]:
    """Cells as text; equal ones are one object."""
    if "<" in str(column.type) and not str(column.type).startswith("dictionary<"):
        raise GraphError(f"a column of {column.type} is neither text nor numbers: leave it out")
    words: list[str] = []
    for chunk in column.chunks:
        if not str(column.type).startswith("dictionary<"):
            words += map(_say, chunk.to_pylist())
            continue
        known = [_say(word) for word in chunk.dictionary.to_pylist()]
        words += ["" if place is None else known[place] for place in chunk.indices.to_pylist()]
    return words


def _numbers(column: Any, file: str, name: str, problems: Problems) -> Numbers:
    """A column of numbers, of words, or of lists of numbers."""
    kind = str(column.type)
    if kind.startswith(("list<", "large_list<", "fixed_size_list<")):
        if not NUMBER.search(kind):
            wrong = f"{name!r} holds a list of something else than numbers"
            problems.add(file, 1, wrong, breaks=True)
            return Numbers(np.zeros((len(column), 1), np.float32), {})
        return _lists(column.to_pylist(), file, name, problems)
    if kind.startswith(("int", "uint", "float", "double", "halffloat")):
        with np.errstate(over="ignore"):
            values = column.to_numpy().astype(np.float32)
        empty = np.flatnonzero(column.is_null().to_numpy())
        return Numbers(values[:, None], dict.fromkeys(empty.tolist(), ""))
    return Numbers.of(_words(column))


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
    width = next((len(cell) for cell in cells if cell), 0)
    values = np.full((len(cells), width), np.nan)
    if not width and cells:
        problems.add(file, None, f"column {name!r} is empty in every row: leave it out")
        return Numbers(values, {})
    for index, cell in enumerate(cells):
        found = cell or []
        if len(found) != width:
            wrong = f"{name!r} holds {len(found)} numbers, others {width}"
            problems.add(file, index + 1, wrong, breaks=True)
        elif not all(isinstance(number, int | float | None) for number in found):
            wrong = f"{name!r} holds a list of something else than numbers"
            problems.add(file, index + 1, wrong, breaks=True)
        else:
            values[index] = [np.nan if number is None else number for number in found]
    with np.errstate(over="ignore"):
        return Numbers(values.astype(np.float32), {})
