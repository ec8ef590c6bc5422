"""Parquet, with the extra `report`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pace.data import decimals
from pace.data.problems import Problems
from pace.data.table import Numbers, Table
from pace.errors import GraphError, SettingError


def header(path: Path) -> list[str]:
    return list(_seen(path, lambda opened: opened.schema_arrow.names))


def read(
    path: Path,
    text: Sequence[str],
    numbers: Sequence[str],
    problems: Problems,
    decimal: str | None = None,
) -> Table:
    """The columns; `decimal` is for numbers that are stored as text."""
    table = _seen(path, lambda opened: opened.read(list(dict.fromkeys((*text, *numbers)))))
    parsed = {name: _numbers(table.column(name), path.name, name, problems) for name in numbers}
    words = {name: each for name, each in parsed.items() if _is_text(table.column(name))}
    notes: list[str] = []
    if decimal or decimals.suspicious(words.values()):
        cells = {name: list(map(_say, table.column(name).to_pylist())) for name in words}
        parsed |= decimals.numbers(cells, decimal, ",", notes)
    return Table(
        path.name,
        list(range(1, len(table) + 1)),
        {name: list(map(_say, table.column(name).to_pylist())) for name in text},
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
        with parquet.ParquetFile(path) as opened:
            return look(opened)
    except (ArrowInvalid, OSError) as error:
        raise GraphError(
            f"{path.name} is not a Parquet file, or damaged ({error}): write it again"
        ) from error


def _numbers(column: Any, file: str, name: str, problems: Problems) -> Numbers:
    """A column of numbers, of words, or of lists of numbers."""
    kind = str(column.type)
    if "list" in kind:
        return _lists(column.to_pylist(), file, name, problems)
    if kind.startswith(("int", "uint", "float", "double", "halffloat")):
        with np.errstate(over="ignore"):
            values = column.to_numpy().astype(np.float32)
        empty = np.flatnonzero(column.is_null().to_numpy())
        return Numbers(values[:, None], dict.fromkeys(empty.tolist(), ""))
    return Numbers.of([_say(cell) for cell in column.to_pylist()])


def _is_text(column: Any) -> bool:
    return str(column.type).startswith(("string", "large_string", "dictionary"))


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
