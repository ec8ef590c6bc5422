"""The parts of a graph that are no features: ids, labels, clients and splits of nodes, and edges."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from pace.errors import GraphError
from pace.graph import MASKS, UNKNOWN
from pace.io import many
from pace.tables.cells import Array, Words, is_number
from pace.tables.dates import are_dates
from pace.tables.problems import Problems, listed
from pace.tables.table import Table, TableFile, check_option, data_columns, open_table, read_table
from pace.tables.words import alike_notes, in_order, missing_among, whole_number

if TYPE_CHECKING:
    from pace.tables.importing import Columns

SEPARATORS = ";|,+/&"  # between several values in a cell
UNKNOWN_WORDS = ("unknown", "unbekannt", "unklar", "not known", "k.a.", "k. a.", "keine angabe")
SUMS = ("total", "totals", "sum", "summe", "gesamt", "gesamtergebnis", "average", "mittelwert")
REWRITTEN = re.compile(r"\d[.,]\d+[eE]\+\d+")  # 1.23E+12
FEW_LABELS = 20
SPLITS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2, "": 3, "none": 3}
ENDS = (  # names of the columns with both ends, in any case
    ("source", "target"), ("src", "dst"), ("from", "to"), ("von", "nach"), ("quelle", "ziel"),
)  # fmt: skip


class NodeIds:
    """What nodes are called, and their numbers by hash: a dict of many strings takes much memory."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, hashes = names, _hashes(names)
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    def numbers(self, names: Sequence[str]) -> Array:
        """The number of each named node, -1 where there is none; of nodes of one name, the first."""
        wanted = _hashes(names)
        order = np.argsort(wanted)  # in order they are found ten times as fast
        places = np.empty_like(order)
        places[order] = np.searchsorted(self._hashes, wanted[order])
        places[places == len(self._hashes)] = 0
        found = (self._hashes[places] == wanted) & (wanted != hash(""))
        return np.where(found, self._order[places], -1)


def _hashes(names: Sequence[str]) -> Array:
    return np.fromiter(map(hash, names), np.int64, len(names))


def number_nodes(table: Table, column: str | None) -> NodeIds:
    """The ids of nodes; without a column, rows are numbered."""
    if column is None:
        return NodeIds(Words(map(str, range(len(table.rows)))))
    ids = NodeIds(table.text[column])
    first = ids.numbers(ids.names)
    for index, name in enumerate(ids.names):
        if not name:
            table.refuse(index, f"the id ({column!r}) is empty")
        elif REWRITTEN.fullmatch(name):
            wrong = f"id {name!r} was rewritten by a spreadsheet: export both with the ids as text"
            table.refuse(index, wrong, cell=name)
        elif first[index] < index:
            wrong = f"id {name!r} is in row {table.rows[first[index]]} too"
            kind = f"an id ({column!r}) that is in an earlier row too"
            table.refuse(index, wrong, kind=kind, cell=name)
    if name.lower() in SUMS:
        table.refuse(index, f"{name!r} looks like the sum of the rows above: delete this row")
    return ids


def read_labels(
    table: Table, column: str | None, classes: Sequence[str], missing: Sequence[str]
) -> tuple[Tensor, tuple[str, ...]]:
    """Class numbers, in the order of `classes`, else whole numbers by value, words by alphabet."""
    if column is None:
        return torch.full((len(table.rows),), UNKNOWN), tuple(classes)
    cells = table.text[column]
    counts = Counter(cells)
    meaning = _labels(table, column, counts, classes, missing)
    names = in_order(filter(None, meaning.values()))
    table.problems.notes.extend(alike_notes(f"label {column!r}", names, "classes"))
    if not (names or classes):
        wrong = f"label column {column!r} is empty in every row: for nodes to predict, leave --label out"
        table.refuse(None, wrong)
    elif not classes:
        labelled = sum(count for cell, count in counts.items() if meaning[cell])
        _check_classes(table, column, names, labelled)
    names = list(classes) or names
    number = {name: label for label, name in enumerate(names)}
    strange = {cell for cell, name in meaning.items() if name and name not in number}
    for index, cell in enumerate(cells) if strange else ():
        if cell in strange:
            wrong = "is not among the given classes"
            kind = f"the label {wrong} ({', '.join(names[:12])})"
            table.refuse(index, f"label {cell!r} {wrong}", kind=kind, cell=cell)
    labels = {cell: number.get(name, UNKNOWN) for cell, name in meaning.items()}
    return _numbered(cells, labels), tuple(names)


def _labels(
    table: Table,
    column: str,
    counts: Mapping[str, int],
    classes: Sequence[str],
    missing: Sequence[str],
) -> dict[str, str]:
    """What each cell means: its class, whole numbers in one spelling, or '' where it is unknown."""
    absent = {word.lower() for word in missing_among(counts, missing)} - {""}
    unknown = sorted(cell for cell in counts if cell.lower() in absent and cell not in classes)
    if unknown:
        rows = many(sum(counts[cell] for cell in unknown), "row")
        read = f"{', '.join(map(repr, unknown))} read as unknown, in {rows} (else: --classes)"
        table.problems.notes.append(f"label {column!r}: {read}")
    words = [cell for cell in counts if cell and cell not in unknown]
    whole = {cell: whole_number(cell) for cell in words}
    if None not in whole.values():  # an unknown class is often written -1
        plain = {cell: str(value) for cell, value in whole.items() if value != UNKNOWN}
        return {cell: plain.get(cell, "") for cell in counts}
    if 2 * sum(whole[cell] is None and is_number(cell) for cell in words) > len(words):
        wrong = "holds fractions: PACE predicts classes, so give whole numbers or names"
        table.refuse(None, f"label column {column!r} {wrong}")
    if (several := _several_classes({*words} - {*classes})) is not None:
        wrong = f"holds several classes in a cell, such as {several!r}: choose one for each node"
        table.refuse(None, f"label column {column!r} {wrong}")
    return {cell: "" if cell in unknown else cell for cell in counts}


def _check_classes(table: Table, column: str, names: Sequence[str], labelled: int) -> None:
    """Refuse what is no class, and warn of classes that a model should not learn."""
    label, warnings = f"label {column!r}", table.problems.warnings
    if are_dates(names) or (labelled >= FEW_LABELS and 2 * len(names) > labelled):
        classes = f"{len(names):,} classes in {labelled:,} rows, such as {names[0]!r}"
        table.refuse(None, f"{label} holds {classes}: PACE learns classes that recur")
    if len(names) == 1:
        warnings.append(f"{label} is {names[0]!r} in every row: nothing can be learnt from it")
    if unknown := [name for name in names if name.lower() in UNKNOWN_WORDS]:
        warnings.append(f"{label}: {unknown[0]!r} is learnt as a class; empty it if it is none")


def _numbered(cells: Sequence[str], numbers: Mapping[str, int]) -> Tensor:
    return torch.from_numpy(np.fromiter(map(numbers.__getitem__, cells), np.int64, len(cells)))


def _several_classes(labels: Collection[str]) -> str | None:
    """A label that is a list of others: every part of it occurs in another label too."""
    for separator in SEPARATORS:
        parts = {label: {part.strip() for part in label.split(separator)} for label in labels}
        counts = Counter(part for held in parts.values() for part in held)
        lists = [held for held in parts.items() if len(held[1]) > 1 and "" not in held[1]]
        for label, held in sorted(lists):
            if all(counts[part] > 1 for part in held):
                return label
    return None


def read_clients(table: Table, column: str | None) -> tuple[Tensor | None, tuple[str, ...]]:
    """The client of each node, and the clients' names."""
    if column is None:
        return None, ()
    cells = table.text[column]
    names = in_order(cells)
    for index, cell in enumerate(cells) if "" in names else ():
        if not cell:
            table.refuse(index, f"the client ({column!r}) is empty")
    return _numbered(cells, {name: client for client, name in enumerate(names)}), tuple(names)


def read_masks(table: Table, column: str | None, y: Tensor) -> dict[str, Tensor]:
    """The masks train, val and test; none without a column."""
    if column is None:
        return {}
    cells = table.text[column]
    parts = torch.tensor([SPLITS.get(cell.lower(), 4) for cell in cells])
    for index in ((parts == 4) | (parts < 3) & (y == UNKNOWN)).nonzero().flatten().tolist():
        if parts[index] == 4:
            table.refuse_cell(index, column, "train, val, test or nothing")
        else:
            part = cells[index]
            wrong = f"the node is in {part!r} but has no label: give one, or empty {column!r}"
            table.refuse(index, wrong)
    return {mask: parts == number for number, mask in enumerate(MASKS)}


def read_edges(
    path: Path, ids: NodeIds, columns: Columns, problems: Problems
) -> tuple[Tensor, Tensor | None]:
    """Both ends of every edge, (2, edges), and the weights, if their column is named."""
    file, weight, weights = open_table(path), columns.weight, None
    ends = find_ends(file, problems, weight)
    if (ids.numbers(ends) >= 0).all():
        wrong = f"begins with {','.join(ends)}, which are node ids, not with names"
        raise GraphError(f"{path.name} {wrong} of columns such as source,target")
    table = read_table(file, problems, text=ends, numbers=[weight] if weight else [])
    if weight is not None:
        weights = torch.from_numpy(table.numbers[weight].values)
        unusable = ~(torch.isfinite(weights) & (weights > 0))
        for index in unusable.nonzero().flatten().tolist():
            table.refuse_cell(index, weight, "a number above 0")
    edges = torch.empty((2, len(table.rows)), dtype=torch.int64)
    for row, end in enumerate(ends):
        edges[row] = torch.from_numpy(ids.numbers(table.text[end]))
    if not edges.numel():
        problems.warnings.append(f"{path.name} has no rows: no node has a neighbour")
    elif columns.id is None and not (edges == 0).any():
        counted = "without --id rows are counted from 0: do yours count from 1?"
        problems.warnings.append(f"{path.name} never names node 0, and {counted}")
    strange = (edges < 0).any(0)
    if not strange.any():
        return edges, weights
    if columns.strangers == "drop":
        dropped = f"dropped: edges to nodes that are not in the table, {int(strange.sum()):,}"
        if 2 * int(strange.sum()) <= len(strange):
            problems.notes.append(dropped)
        else:
            worse = "predictions lean on neighbours (--with OLD.graph has the other ends)"
            problems.warnings.append(f"{dropped} of {len(strange):,}: {worse}")
        return edges[:, ~strange], None if weights is None else weights[~strange]
    for index in strange.nonzero().flatten().tolist():
        for end, number in zip(ends, edges[:, index].tolist(), strict=True):
            if not (name := table.text[end][index]):
                table.refuse(index, f"{end!r} is empty")
            elif number < 0:
                remedies = "--id COLUMN, --with OLD.graph or --strangers drop"
                kind = f"{end!r} is not the id of any node ({remedies})"
                wrong = f"{end!r} is {name!r}, not the id of any node"
                table.refuse(index, wrong, kind=kind, cell=name)
    return edges, weights


def find_ends(file: TableFile, problems: Problems, weight: str | None) -> list[str]:
    """The columns with both ends: by their usual names, or the only two."""
    columns = data_columns(file, problems)
    lower = {name.lower(): name for name in reversed(columns)}
    named = ([lower[end] for end in pair] for pair in ENDS if set(pair) <= set(lower))
    ends = next(named, [name for name in columns if name != weight])
    if len(ends) != 2:
        remedy = "call the two with the ends of an edge source and target"
        raise GraphError(f"{file.name} has the columns {listed(columns) or 'no name'}: {remedy}")
    if weight is not None:
        check_option("weight", weight, columns, file.name)
    if ignored := [name for name in columns if name not in (*ends, weight)]:
        same = "" if weight else "; all edges weigh the same (--weight COLUMN reads weights)"
        unused = f"not used are {', '.join(ignored)}, as no model here reads features of edges"
        problems.notes.append(f"{file.name}: {unused}{same}")
    return ends
