"""The columns of a table of nodes that are no features: ids, labels, clients and splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from pace.graph import UNKNOWN
from pace.io.terminal import many
from pace.tables.cells import MISSING, in_order, missing_among, spelt_alike, whole_number
from pace.tables.numbers import is_number
from pace.tables.table import Table

SPLITS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2, "": 3, "none": 3}


def number_nodes(table: Table, column: str | None) -> dict[str, int]:
    """The number of each node id; without a column, rows are numbered."""
    if column is None:
        return {str(index): index for index in range(len(table.rows))}
    numbers: dict[str, int] = {}
    for index, name in enumerate(table.text[column]):
        if not name:
            table.refuse(index, f"the id ({column!r}) is empty")
        elif name in numbers:
            wrong = f"id {name!r} stands in row {table.rows[numbers[name]]} too"
            kind = f"an id ({column!r}) that stands in an earlier row too"
            table.refuse(index, wrong, kind=kind, cell=name)
        else:
            numbers[name] = index
    return numbers


def read_labels(
    table: Table, column: str | None, classes: Sequence[str], missing: Sequence[str] = MISSING
) -> tuple[Tensor, tuple[str, ...]]:
    """Class numbers. Classes are in the given order, else whole numbers by value, words by alphabet.

    A label is unknown without a column, where a cell is empty or says one of `missing`, in any case.
    The table's notes tell of such words, and of classes that are spelt alike.
    """
    if column is None:
        return torch.full((len(table.rows),), UNKNOWN), tuple(classes)
    cells = _known_labels(table, column, classes, missing)
    names = in_order(cell for cell in cells if cell)
    table.notes.extend(
        f"label {column!r}: {' and '.join(map(repr, group))} are {len(group)} classes: if they are "
        "one, write them alike"
        for group in spelt_alike(names)
    )
    names = list(classes) or names
    if not names:
        table.refuse(
            None,
            f"label column {column!r} is empty in every row: for nodes to predict, leave --label out",
        )
    number = {name: label for label, name in enumerate(names)}
    for index, cell in enumerate(cells):
        if cell and cell not in number:
            wrong = f"label {cell!r} is not among the given classes"
            table.refuse(index, wrong, kind=f"{wrong} ({', '.join(names[:12])})")
    return torch.tensor([number.get(cell, UNKNOWN) for cell in cells]), tuple(names)


def _known_labels(
    table: Table, column: str, classes: Sequence[str], missing: Sequence[str]
) -> list[str]:
    """The labels as words, '' where one is unknown; whole numbers all in one spelling."""
    cells = table.text[column]
    absent = {word.lower() for word in missing_among(set(cells), missing)}
    unknown = Counter(
        cell for cell in cells if cell and cell.lower() in absent and cell not in classes
    )
    if unknown:
        table.notes.append(
            f"label {column!r}: {', '.join(map(repr, sorted(unknown)))} read as unknown, in "
            f"{many(unknown.total(), 'row')} (--classes names all classes, if one is)"
        )
    whole = {cell: whole_number(cell) for cell in set(cells) - {"", *unknown}}
    if None not in whole.values():  # an unknown class is often written -1
        plain = {cell: str(value) for cell, value in whole.items() if value != UNKNOWN}
        return [plain.get(cell, "") for cell in cells]
    if 2 * sum(value is None and is_number(cell) for cell, value in whole.items()) > len(whole):
        table.refuse(
            None,
            f"label column {column!r} holds fractions: PACE sorts nodes into classes, so give whole "
            "numbers or names",
        )
    return ["" if cell in unknown else cell for cell in cells]


def read_clients(table: Table, column: str | None) -> tuple[Tensor | None, tuple[str, ...]]:
    """The client of each node, and the clients' names."""
    if column is None:
        return None, ()
    cells = table.text[column]
    for index, cell in enumerate(cells):
        if not cell:
            table.refuse(index, f"the client ({column!r}) is empty")
    names = in_order(cell for cell in cells if cell)
    number = {name: client for client, name in enumerate(names)}
    return torch.tensor([number.get(cell, 0) for cell in cells]), tuple(names)


def read_masks(table: Table, column: str | None, y: Tensor) -> dict[str, Tensor]:
    """The masks train, val and test; none without a column."""
    if column is None:
        return {}
    parts = []
    for index, (cell, label) in enumerate(zip(table.text[column], y.tolist(), strict=True)):
        part = SPLITS.get(cell.lower())
        if part is None:
            table.refuse_cell(index, column, cell, "train, val, test or nothing")
        elif part < 3 and label == UNKNOWN:
            table.refuse(
                index, f"the node is in {cell!r} but has no label: give one, or empty {column!r}"
            )
        parts.append(3 if part is None else part)
    if set(parts) == {3}:
        table.refuse(None, f"split column {column!r} is empty in every row")
    drawn = torch.tensor(parts)
    return {mask: drawn == number for number, mask in enumerate(("train", "val", "test"))}
