"""The columns of a table of nodes that are no features: ids, labels, clients and splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from pace.graph import UNKNOWN
from pace.io.terminal import many
from pace.tables.codebook import MISSING, missing_in
from pace.tables.problems import Problems
from pace.tables.suspicions import alike
from pace.tables.table import Table

SPLITS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2, "": 3, "none": 3}


def ids(table: Table, column: str | None, problems: Problems) -> dict[str, int]:
    """The number of each node id."""
    if column is None:
        return {str(index): index for index in range(len(table.rows))}
    numbered: dict[str, int] = {}
    for index, value in enumerate(table.text[column]):
        if not value:
            wrong = f"the id ({column!r}) is empty"
            problems.add(table.file, table.rows[index], wrong, kind=wrong)
        elif value in numbered:
            first = table.rows[numbered[value]]
            problems.add(
                table.file,
                table.rows[index],
                f"id {value!r} stands in row {first} too",
                kind=f"an id ({column!r}) that stands in an earlier row too",
                cell=value,
            )
        else:
            numbered[value] = index
    return numbered


def labels(
    table: Table,
    column: str | None,
    classes: Sequence[str],
    problems: Problems,
    notes: list[str],
    missing: Sequence[str] = MISSING,
) -> tuple[Tensor, tuple[str, ...]]:
    """Class numbers. Classes are in the given order, else whole numbers by value, words by alphabet.

    Without a column, or where classes are given and every cell is empty, nobody knows any class. So it
    is where a cell says one of `missing`, in any case; `notes` tells of it, and of classes alike.
    """
    if column is None:
        return torch.full((len(table.rows),), UNKNOWN), tuple(classes)
    words = table.text[column]
    absent = missing_in(words, missing)
    unknown = Counter(
        word for word in words if word and word.lower() in absent and word not in classes
    )
    cells = ["" if word in unknown else word for word in words]
    if unknown:
        said = ", ".join(map(repr, sorted(unknown)))
        notes.append(
            f"label {column!r}: {said} read as unknown, in {many(unknown.total(), 'row')} "
            "(--classes names all classes, if one is)"
        )
    whole = {cell: _whole(cell) for cell in set(cells) if cell}
    if all(value is not None for value in whole.values()):
        # An unknown class is often written -1; 3.0 is 3 that passed through a spreadsheet.
        plain = {cell: str(value) for cell, value in whole.items() if value != UNKNOWN}
        cells = [plain.get(cell, "") for cell in cells]
    elif sum(_is_fraction(cell) for cell in whole) > len(whole) / 2:
        problems.add(
            table.file,
            None,
            f"label column {column!r} holds fractions: PACE sorts nodes into classes, so "
            "give whole numbers or names",
        )
    found = in_order({cell for cell in cells if cell})
    notes += [
        f"label {column!r}: {' and '.join(map(repr, group))} are {len(group)} classes: if they are "
        "one, write them alike"
        for group in alike(found)
    ]
    listed = classes or found
    number = {name: label for label, name in enumerate(listed)}
    if not listed:
        problems.add(
            table.file,
            None,
            f"label column {column!r} is empty in every row: for nodes to predict, leave --label out",
        )
    for index, cell in enumerate(cells):
        if cell and cell not in number:
            problems.add(
                table.file,
                table.rows[index],
                f"label {cell!r} is not among the given classes",
                kind=f"label {cell!r} is not among the given classes ({', '.join(listed[:12])})",
            )
    return torch.tensor([number.get(cell, UNKNOWN) for cell in cells]), tuple(listed)


def in_order(names: set[str]) -> list[str]:
    """Whole numbers by value, anything else by alphabet."""
    whole = {name: _whole(name) for name in names}
    if all(value is not None for value in whole.values()):
        return sorted(names, key=lambda name: int(float(name)))
    return sorted(names)


def _whole(cell: str) -> int | None:
    """The whole number a cell stands for."""
    try:
        return int(float(cell)) if float(cell).is_integer() else None
    except (ValueError, OverflowError):
        return None


def _is_fraction(cell: str) -> bool:
    try:
        return not float(cell).is_integer()
    except (ValueError, OverflowError):
        return False


def clients(
    table: Table, column: str | None, problems: Problems
) -> tuple[Tensor | None, tuple[str, ...]]:
    if column is None:
        return None, ()
    cells = table.text[column]
    for index, cell in enumerate(cells):
        if not cell:
            wrong = f"the client ({column!r}) is empty"
            problems.add(table.file, table.rows[index], wrong, kind=wrong)
    names = in_order({cell for cell in cells if cell})
    number = {name: client for client, name in enumerate(names)}
    return torch.tensor([number.get(cell, 0) for cell in cells]), tuple(names)


def masks(table: Table, column: str | None, y: Tensor, problems: Problems) -> dict[str, Tensor]:
    if column is None:
        return {}
    parts = []
    for index, cell in enumerate(table.text[column]):
        part = SPLITS.get(cell.lower())
        if part is None:
            wrong = f"{column!r} is {cell!r}, expected train, val, test or nothing"
            kind = f"{column!r} is not train, val, test or nothing"
            problems.add(table.file, table.rows[index], wrong, kind=kind, cell=cell)
        elif part < 3 and y[index] == UNKNOWN:
            wrong = f"the node is in {cell!r} but has no label: give one, or empty {column!r}"
            problems.add(table.file, table.rows[index], wrong, kind=wrong)
        parts.append(3 if part is None else part)
    if set(parts) == {3}:
        problems.add(table.file, None, f"split column {column!r} is empty in every row")
    drawn = torch.tensor(parts)
    return {mask: drawn == number for number, mask in enumerate(("train", "val", "test"))}
