"""The feature columns of a table of nodes: numbers as they are, words one-hot."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pace.data.problems import Problems
from pace.data.table import Numbers, Table
from pace.io.terminal import many

CATEGORIES = 64  # a column of words with more of them is not one-hot encoded
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+")


def features(table: Table, problems: Problems, notes: list[str]) -> tuple[Tensor, tuple[str, ...]]:
    """All feature columns side by side, words one-hot."""
    blocks, names = [], []
    for column, numbers in table.numbers.items():
        words = {cell for cell in numbers.text.values() if cell}
        if words and np.isnan(numbers.values).all():
            block, listed = _one_hot(table, column, numbers, problems)
            made = many(len(listed), "column")
            notes.append(f"column {column!r} became {made}, one for each word")
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


def _finite(table: Table, column: str, numbers: Numbers, problems: Problems) -> None:
    for index, place in np.argwhere(~np.isfinite(numbers.values)).tolist():
        cell = numbers.text.get(index, str(numbers.values[index, place]))
        found = f"is {cell!r}" if cell else "is empty"
        problems.add(table.file, table.rows[index], f"{column!r} {found}, expected a finite number")


def _one_hot(
    table: Table, column: str, numbers: Numbers, problems: Problems
) -> tuple[np.ndarray[Any, Any], list[str]]:
    words = sorted({cell for cell in numbers.text.values() if cell})
    if all(map(DECIMAL_COMMA.fullmatch, words)):
        wrong = f"holds numbers with a comma, such as {words[0]}: write them with a point"
        problems.add(table.file, None, f"column {column!r} {wrong}")
    elif len(words) > CATEGORIES:
        problems.add(
            table.file,
            None,
            f"column {column!r} holds {len(words)} different words, too many to make a feature of "
            f"each (at most {CATEGORIES}): leave it out with --features, or turn it into numbers",
        )
        words = []
    place = {word: number for number, word in enumerate(words)}
    block = np.zeros((len(table.rows), len(words)), np.float32)
    for index, cell in numbers.text.items():
        if not cell:
            problems.add(table.file, table.rows[index], f"{column!r} is empty, expected a word")
        elif words:
            block[index, place[cell]] = 1
    return block, [f"{column}={word}" for word in words]
