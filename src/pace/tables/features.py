"""The feature columns of a table of nodes without a codebook: numbers as they are, words one-hot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pace.io.terminal import many
from pace.tables import dates, suspicions
from pace.tables.codebook import MISSING, missing_in
from pace.tables.encode import UNCLEAR
from pace.tables.problems import Problems
from pace.tables.table import Numbers, Table

CATEGORIES = 64  # a column of words with more of them is not one-hot encoded
LARGE = 10.0  # root mean square of a feature that is worth a warning
NAMED = 6
FILL = "a codebook can fill it: `pace codebook propose`"


def features(table: Table, problems: Problems, notes: list[str]) -> tuple[Tensor, tuple[str, ...]]:
    """All feature columns side by side, words one-hot."""
    blocks, names = [], []
    for column, numbers in table.numbers.items():
        words = {cell for cell in numbers.text.values() if cell}
        if words and np.isnan(numbers.values).all():
            if dates.are_dates(words):
                block, listed = _days(table, column, numbers, problems), [column]
                notes.append(f"column {column!r} became days since 2000-01-01")
            else:
                block, listed = _one_hot(table, column, numbers, problems)
                notes += _remarks(column, words, len(listed))
        elif set(numbers.text.values()) == {""} and len(numbers.text) == len(numbers.values):
            problems.add(table.file, None, f"column {column!r} is empty in every row: leave it out")
            block, listed = numbers.values, [column]
        else:
            block = numbers.values
            width = block.shape[1]
            listed = [column] if width == 1 else [f"{column}.{place}" for place in range(width)]
            _finite(table, column, numbers, problems)
        blocks.append(block)
        names += listed
    return torch.from_numpy(np.concatenate(blocks, axis=1)), tuple(names)


def _remarks(column: str, words: set[str], made: int) -> list[str]:
    """What became of a column of words, and what makes one doubt that it is one."""
    said = [f"column {column!r} became {many(made, 'column')}, one for each word"]
    absent = missing_in(words)
    if missing := sorted(word for word in words if word.lower() in absent):
        listed = ", ".join(map(repr, missing))
        said.append(f"column {column!r}: {listed} taken as words; if they mean missing, {FILL}")
    if (unit := suspicions.unit(words)) is not None:
        said.append(
            f"column {column!r} has numbers with {unit!r} behind: without it they are numbers"
        )
    said += [
        f"column {column!r}: {' and '.join(map(repr, group))} are {len(group)} words: if they are one, "
        "write them alike"
        for group in suspicions.alike(words)
    ]
    return said


def unscaled(x: Tensor, names: Sequence[str]) -> str | None:
    """A sentence about features far larger than 1, which drown the others; None if there are none."""
    size = torch.linalg.vector_norm(x, dim=0) / len(x) ** 0.5
    large = (size > LARGE).nonzero().flatten().tolist()
    if not large:
        return None
    shown = [
        f"{names[place] if names else f'number {place}'} (about {float(size[place]):.3g})"
        for place in large[:NAMED]
    ]
    more = f" and {len(large) - NAMED} more" if len(large) > NAMED else ""
    return (
        f"{many(len(large), 'feature')} far larger than 1, not scaled: {', '.join(shown)}{more}. "
        "Models learn little from such features; a codebook scales them alike at every site "
        "(`pace codebook propose`)"
    )


def _finite(table: Table, column: str, numbers: Numbers, problems: Problems) -> None:
    wanted = "a number with a decimal comma" if numbers.mixed else "a finite number"
    for index, place in np.argwhere(~np.isfinite(numbers.values)).tolist():
        cell = numbers.text.get(index, str(numbers.values[index, place]))
        found = f"is {cell!r}" if cell else "is empty"
        empty = cell.lower() in MISSING and index in numbers.text
        kind = f"{column!r} is empty; {FILL}" if empty else f"{column!r} is not {wanted}"
        text = f"{column!r} {found}, expected {wanted}"
        problems.add(table.file, table.rows[index], text, kind=kind, cell=cell)


def _days(
    table: Table, column: str, numbers: Numbers, problems: Problems
) -> np.ndarray[Any, np.dtype[np.float32]]:
    cells = [numbers.text.get(index, "") for index in range(len(table.rows))]
    if dates.unclear([cell for cell in cells if cell]):
        problems.add(table.file, None, UNCLEAR.format(column))
    found = dates.days(cells)
    for index, value in enumerate(found):
        if value is None:
            said = f"is {cells[index]!r}" if cells[index] else "is empty"
            kind = f"{column!r} is not a date" if cells[index] else f"{column!r} is empty; {FILL}"
            text = f"{column!r} {said}, expected a date"
            problems.add(table.file, table.rows[index], text, kind=kind, cell=cells[index])
    return np.array([[np.nan if value is None else value] for value in found], np.float32)


def _one_hot(
    table: Table, column: str, numbers: Numbers, problems: Problems
) -> tuple[np.ndarray[Any, Any], list[str]]:
    words = sorted({cell for cell in numbers.text.values() if cell})
    if numbers.mixed:
        problems.add(
            table.file,
            None,
            f"column {column!r} holds numbers such as {words[0]}, where the comma may stand before "
            "decimals or between thousands: say --decimal comma or --decimal point",
        )
        words = []
    elif (wrong := suspicions.not_words(words)) is not None:
        problems.add(table.file, None, f"column {column!r} {wrong}")
    elif len(words) > CATEGORIES:
        every = ", another in every row," if len(words) == len(table.rows) else ","
        or_id = f"; if it is the id of a node, give --id {column}" if every != "," else ""
        problems.add(
            table.file,
            None,
            f"column {column!r} holds {len(words)} different words{every} too many to make a "
            f"feature of each (at most {CATEGORIES}): leave it out with --features, or turn it into "
            f"numbers{or_id}",
        )
        words = []
    place = {word: number for number, word in enumerate(words)}
    block = np.zeros((len(table.rows), len(words)), np.float32)
    for index, cell in numbers.text.items():
        if not cell:
            problems.add(
                table.file,
                table.rows[index],
                f"{column!r} is empty, expected a word",
                kind=f"{column!r} is empty; {FILL}",
            )
        elif words:
            block[index, place[cell]] = 1
    return block, [f"{column}={word}" for word in words]
