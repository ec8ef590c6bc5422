"""Parquet, with the extra `report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pace.data.problems import Problems
from pace.data.table import Numbers, Table
from pace.errors import GraphError, SettingError


def header(path: Path) -> list[str]:
    return list(_opened(path).schema_arrow.names)


def read(path: Path, text: Sequence[str], numbers: Sequence[str], problems: Problems) -> Table:
    table = _opened(path).read(columns=list(dict.fromkeys((*text, *numbers))))
    return Table(
        path.name,
        list(range(1, len(table) + 1)),
        {name: list(map(_say, table.column(name).to_pylist())) for name in text},
        {name: _numbers(table.column(name), path.name, name, problems) for name in numbers},
    )


def _opened(path: Path) -> Any:
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError:
        raise SettingError("Parquet needs pyarrow: pip install 'pace-fgl[report]'") from None
    try:
        return parquet.ParquetFile(path)
    except (ArrowInvalid, OSError) as error:
        raise GraphError(f"{path.name} is not a Parquet file ({error})") from error


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
