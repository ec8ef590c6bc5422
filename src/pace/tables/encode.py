"""A table by a codebook: the agreed features in the agreed order, and what was done to which rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pace.io.terminal import many
from pace.tables import dates
from pace.tables.codebook import ABSENT, OTHER, Codebook, Column
from pace.tables.problems import Problems
from pace.tables.table import Table

FAR = 20  # scaled values beyond this are told: most often another unit
EXAMPLES = 4
Array = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class Change:
    """What was done to some rows of a column."""

    column: str
    what: str
    rows: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        rows = ", ".join(map(str, self.rows[:EXAMPLES])) + (", …" if self.rows[EXAMPLES:] else "")
        return f"{self.column!r} in {many(len(self.rows), 'row')} ({rows}): {self.what}"


def encode(table: Table, book: Codebook, problems: Problems, changes: list[Change]) -> Tensor:
    """The features, (rows, features of the codebook)."""
    blocks = [_encoded(table, column, book, problems, changes) for column in book.columns]
    return torch.from_numpy(np.concatenate(blocks, axis=1))


def reading(book: Codebook) -> tuple[list[str], list[str]]:
    """Which columns are read as text, and which as numbers."""
    words = [column.name for column in book.columns if column.kind in ("category", "date")]
    numbers = [column.name for column in book.columns if column.kind in ("number", "flag")]
    return words, numbers


def _encoded(
    table: Table, column: Column, book: Codebook, problems: Problems, changes: list[Change]
) -> Array:
    if column.kind == "category":
        return _category(table, column, book, problems, changes)
    if column.kind == "date":
        values, missing = _days(table, column, book, problems)
    else:
        values, missing = _numbers(table, column, book, problems)
    rows = [table.rows[index] for index in np.flatnonzero(missing)]
    if rows and column.fill is None:
        for row in rows:
            wrong = f"{column.name!r} is empty"
            problems.add(
                table.file, row, wrong, kind=f"{wrong}, and the codebook has no `fill` for it"
            )
    elif rows:
        shown = dates.day(column.fill or 0) if column.kind == "date" else f"{column.fill:g}"
        marked = " and marked" if column.indicator else ""
        changes.append(Change(column.name, f"missing, filled with {shown}{marked}", rows))
    values = np.where(missing, np.nan if column.fill is None else column.fill, values)
    scaled = (values - column.centre) / column.scale
    with np.errstate(invalid="ignore"):
        far = np.flatnonzero(np.abs(scaled) > FAR)
    if len(far):
        example = values[far[0]]
        what = f"more than {FAR} scales from the centre (such as {example:g}; another unit?)"
        changes.append(Change(column.name, what, [table.rows[index] for index in far]))
    with np.errstate(over="ignore"):
        block = scaled.astype(np.float32)[:, None]
    if column.indicator:
        block = np.concatenate([block, missing.astype(np.float32)[:, None]], axis=1)
    return block


def _numbers(
    table: Table, column: Column, book: Codebook, problems: Problems
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    found = table.numbers[column.name]
    values = found.values[:, 0].astype(np.float64)
    missing = np.zeros(len(values), bool)
    if "nan" in book.missing:
        missing |= np.isnan(values)
    for index, cell in found.text.items():
        missing[index] = book.is_missing(cell)
    flag = column.kind == "flag"
    wanted = "0 or 1" if flag else "a finite number"
    wrong = ~missing & ~np.isfinite(values)
    if flag:
        wrong |= ~missing & ~np.isin(values, (0, 1))
    for index in np.flatnonzero(wrong).tolist():
        cell = found.text.get(index, f"{values[index]:g}")
        problems.add(
            table.file,
            table.rows[index],
            f"{column.name!r} is {cell!r}, expected {wanted}",
            kind=f"{column.name!r} is not {wanted}",
            cell=cell,
        )
    return values, missing


def _days(
    table: Table, column: Column, book: Codebook, problems: Problems
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    cells = table.text[column.name]
    missing = np.array([book.is_missing(cell) for cell in cells])
    if dates.unclear([cell for cell in cells if cell]):
        problems.add(table.file, None, UNCLEAR.format(column.name))
    found = dates.days(cells)
    for index, value in enumerate(found):
        if value is None and not missing[index]:
            problems.add(
                table.file,
                table.rows[index],
                f"{column.name!r} is {cells[index]!r}, expected a date such as 2024-03-31",
                kind=f"{column.name!r} is not a date such as 2024-03-31",
                cell=cells[index],
            )
    values = np.array([np.nan if value is None else value for value in found])
    return values, missing


UNCLEAR = "column {!r} has dates whose day and month cannot be told apart: write them as 2024-03-31"


def _category(
    table: Table, column: Column, book: Codebook, problems: Problems, changes: list[Change]
) -> Array:
    place = {word: at for at, word in enumerate(column.words)}
    block = np.zeros((len(table.rows), len(place)), np.float32)
    listed = set(column.values)
    unknown: dict[str, list[int]] = {}
    absent = []
    for index, cell in enumerate(table.text[column.name]):
        row = table.rows[index]
        if cell in listed:
            block[index, place[cell]] = 1
        elif book.is_missing(cell):
            if column.fillable:
                block[index, place[ABSENT if column.indicator else OTHER]] = 1
                absent.append(row)
            else:
                wrong = f"{column.name!r} is empty"
                kind = f"{wrong}, and the codebook has no `indicator` for it"
                problems.add(table.file, row, wrong, kind=kind)
        elif column.other:
            block[index, place[OTHER]] = 1
            unknown.setdefault(cell, []).append(row)
        else:
            problems.add(
                table.file,
                row,
                f"{column.name!r} is {cell!r}, not among the codebook's values",
                kind=f"{column.name!r} is not among the codebook's values",
                cell=cell,
            )
    if absent:
        how = "marked" if column.indicator else "taken as `other`"
        changes.append(Change(column.name, f"missing, {how}", absent))
    changes += [Change(column.name, f"{word!r} is `other`", rows) for word, rows in unknown.items()]
    return block
