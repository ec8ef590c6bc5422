"""Tables of a user's: CSV with the core install, Parquet with the extra `report`.

Rows are counted as an editor or a spreadsheet shows them: the header of a CSV file is row 1. A
Parquet file has no header row, so its first row is 1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pace.errors import GraphError
from pace.tables import csv_table, parquet
from pace.tables.problems import Problems
from pace.tables.table import Table, Wanted

ROW_NUMBERS = re.compile(r"|__index_level_\d+__|Unnamed: \d+")  # as pandas calls its index


def header(path: Path) -> list[str]:
    """The names of a table's columns."""
    if not path.is_file():
        raise GraphError(f"{path} not found: give a .csv or .parquet file")
    names = parquet.header(path) if _is_parquet(path) else csv_table.header(path)
    counts = Counter(filter(None, names))
    if twice := next((name for name, count in counts.items() if count > 1), None):
        raise GraphError(f"{path.name} has two columns called {twice!r}: rename one")
    return names


def named(path: Path, names: Sequence[str], notes: list[str]) -> list[str]:
    """The columns that can be data nobody pointed at: without those that only number the rows."""
    kept = [name for name in names if not ROW_NUMBERS.fullmatch(name)]
    if len(kept) < len(names):
        notes.append(f"{path.name}: not used is a column without a name, such as pandas' index")
    return kept


def read(
    path: Path,
    *,
    text: Sequence[str],
    numbers: Sequence[str] = (),
    problems: Problems,
    decimal: str | None = None,
) -> Table:
    """The named columns of a table; `decimal` says comma or point where it cannot be seen."""
    reader = parquet.read if _is_parquet(path) else csv_table.read
    return reader(path, Wanted(text, numbers, decimal), problems)


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")
