"""The columns of a table that were asked for, wherever they came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column, or several from a list, read as numbers; NaN where a cell is none."""

    values: Array  # (rows, width)
    text: dict[int, str]  # index -> what stood in a cell that is no number
    mixed: bool = False  # whether other cells of the column have decimal commas

    @classmethod
    def of(cls, cells: Sequence[str], *, mixed: bool = False) -> Numbers:
        try:
            with np.errstate(over="ignore"):  # too large for float32: infinite, and told so
                numbers = np.fromiter(map(float, cells), np.float64, len(cells)).astype(np.float32)
            return cls(numbers[:, None], {}, mixed)
        except ValueError:
            pass
        values = np.full((len(cells), 1), np.nan)
        text = {}
        for index, cell in enumerate(cells):
            try:
                values[index] = float(cell.replace("\u2212", "-"))  # a typographer's minus
            except ValueError:
                text[index] = cell.strip()
        with np.errstate(over="ignore"):
            return cls(values.astype(np.float32), text, mixed)

    @classmethod
    def join(cls, parts: Sequence[Numbers]) -> Numbers:
        text: dict[int, str] = {}
        first = 0
        for part in parts:
            text |= {first + index: cell for index, cell in part.text.items()}
            first += len(part.values)
        return cls(np.concatenate([part.values for part in parts]), text)


@dataclass(frozen=True)
class Wanted:
    """Which columns of a file are asked for, and as what."""

    text: Sequence[str]
    numbers: Sequence[str] = ()
    decimal: str | None = None
    """`,` or `.` where it cannot be seen which one the numbers have."""

    @property
    def names(self) -> list[str]:
        """Each once, whatever it is for."""
        return list(dict.fromkeys((*self.text, *self.numbers)))


@dataclass(frozen=True, eq=False)
class Table:
    """The columns that were asked for: some as text, '' where a cell is empty, some as numbers."""

    file: str
    rows: list[int]  # the number of each row, as people count
    text: dict[str, list[str]]
    numbers: dict[str, Numbers]
    notes: list[str] = field(default_factory=list)  # how the file was read, where that is not plain
