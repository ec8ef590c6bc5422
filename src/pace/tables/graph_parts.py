"""The parts of a graph that are no features: ids, labels, clients and splits of nodes, and edges."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pace.errors import GraphError
from pace.graph import MASKS, UNKNOWN
from pace.io import many
from pace.tables.cells import Words, alike_notes, in_order, is_number, missing_among, whole_number
from pace.tables.dates import are_dates
from pace.tables.problems import Problems, listed
from pace.tables.table import Table, TableFile, check_option, data_columns, open_table, read_table

SEPARATORS = ";|,+/&"  # between several values in a cell
UNKNOWN_WORDS = [
    "unknown",
    "unbekannt",
    "unklar",
    "not known",
    "k.a.",
    "k. a.",
    "keine angabe",
    "n.d.",
]
SUMS = [
    "total",
    "totals",
    "sum",
    "summe",
    "gesamt",
    "gesamtergebnis",
    "average",
    "mean",
    "mittelwert",
]
REWRITTEN = re.compile(r"\d[.,]\d+[eE]\+\d+")  # 1.23E+12
AS_TEXT = "export both with the ids as text"
FEW_LABELS = 20
SPLITS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2, "": 3, "none": 3}
ENDS = (  # names of the columns with both ends, in any case
    ("source", "target"), ("src", "dst"), ("from", "to"), ("von", "nach"), ("quelle", "ziel"),
)  # fmt: skip


def number_nodes(table: Table, column: str | None) -> dict[str, int]:
    """The number of each node id; without a column, rows are numbered."""
    if column is None:
        return {str(index): index for index in range(len(table.rows))}
    numbers: dict[str, int] = {}
    for index, name in enumerate(table.text[column]):
        if not name:
            table.refuse(index, f"the id ({column!r}) is empty")
        elif REWRITTEN.fullmatch(name):
            table.refuse(index, f"id {name!r} was rewritten by a spreadsheet: {AS_TEXT}", cell=name)
        elif index == len(table.rows) - 1 and name.lower() in SUMS:
            table.refuse(index, f"{name!r} looks like the sum of the rows above: delete this row")
        elif name in numbers:
            wrong = f"id {name!r} is in row {table.rows[numbers[name]]} too"
            kind = f"an id ({column!r}) that is in an earlier row too"
            table.refuse(index, wrong, kind=kind, cell=name)
        else:
            numbers[name] = index
    folded = np.fromiter((hash(name.casefold()) for name in numbers), np.int64, len(numbers))
    if repeated := len(numbers) - len(np.unique(folded)):
        table.problems.warnings.append(
            f"{many(repeated, 'id')} in {column!r} differ from another in capital letters only: if they "
            "are one node, write them alike"
        )
    return numbers


def read_labels(
    table: Table, column: str | None, classes: Sequence[str], missing: Sequence[str]
) -> tuple[Tensor, tuple[str, ...]]:
    """Class numbers, in the order of `classes`, else whole numbers by value, words by alphabet."""
    if column is None:
        return torch.full((len(table.rows),), UNKNOWN), tuple(classes)
    cells = _labels(table, column, classes, missing)
    names = in_order(cell for cell in cells if cell)
    table.problems.notes.extend(alike_notes(f"label {column!r}", names, "classes"))
    names = list(classes) or names
    if not names:
        table.refuse(
            None,
            f"label column {column!r} is empty in every row: for nodes to predict, leave --label out",
        )
    elif not classes:
        _check_classes(table, column, names, sum(map(bool, cells)))
    number = {name: label for label, name in enumerate(names)}
    for index, cell in enumerate(cells):
        if cell and cell not in number:
            wrong = "is not among the given classes"
            kind = f"the label {wrong} ({', '.join(names[:12])})"
            table.refuse(index, f"label {cell!r} {wrong}", kind=kind, cell=cell)
    return _numbered(cells, number, UNKNOWN), tuple(names)


def _check_classes(table: Table, column: str, names: Sequence[str], labelled: int) -> None:
    """Refuse what is no class, and warn of classes that a model should not learn."""
    if are_dates(names) or (labelled >= FEW_LABELS and 2 * len(names) > labelled):
        table.refuse(
            None,
            f"label column {column!r} holds {len(names):,} classes in {labelled:,} rows, such as "
            f"{names[0]!r}: PACE learns classes that recur; is it the label?",
        )
    if len(names) == 1:
        table.problems.warnings.append(
            f"label {column!r} is {names[0]!r} in every row: a model learns nothing from one class"
        )
    if unknown := [name for name in names if name.lower() in UNKNOWN_WORDS]:
        table.problems.warnings.append(
            f"label {column!r}: {unknown[0]!r} is learnt as a class: if it means that the class is not "
            "known, empty these cells"
        )


def _numbered(cells: Sequence[str], numbers: Mapping[str, int], other: int) -> Tensor:
    """The number of each cell."""
    found = (numbers.get(cell, other) for cell in cells)
    return torch.from_numpy(np.fromiter(found, np.int64, len(cells)))


def _labels(
    table: Table, column: str, classes: Sequence[str], missing: Sequence[str]
) -> Sequence[str]:
    """The labels as words, '' where one is unknown; whole numbers all in one spelling."""
    cells = table.text[column]
    absent = {word.lower() for word in missing_among(set(cells), missing)} - {""}
    unknown = Counter(cell for cell in cells if cell.lower() in absent and cell not in classes)
    if unknown:
        table.problems.notes.append(
            f"label {column!r}: {', '.join(map(repr, sorted(unknown)))} read as unknown, in "
            f"{many(unknown.total(), 'row')} (--classes names all classes, if one is)"
        )
    whole = {cell: whole_number(cell) for cell in set(cells) - {"", *unknown}}
    if None not in whole.values():  # an unknown class is often written -1
        plain = {cell: str(value) for cell, value in whole.items() if value != UNKNOWN}
        return Words(plain.get(cell, "") for cell in cells)
    if 2 * sum(value is None and is_number(cell) for cell, value in whole.items()) > len(whole):
        table.refuse(
            None,
            f"label column {column!r} holds fractions: PACE sorts nodes into classes, so give whole "
            "numbers or names",
        )
    if (several := _several_classes(whole.keys() - set(classes))) is not None:
        table.refuse(
            None,
            f"label column {column!r} holds several classes in a cell, such as {several!r}: PACE gives "
            "a node one class, so choose one of them, or make a label for each question",
        )
    return Words("" if cell in unknown else cell for cell in cells)


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
    for index, cell in enumerate(cells):
        if not cell:
            table.refuse(index, f"the client ({column!r}) is empty")
    names = in_order(cell for cell in cells if cell)
    number = {name: client for client, name in enumerate(names)}
    return _numbered(cells, number, 0), tuple(names)


def read_masks(table: Table, column: str | None, y: Tensor) -> dict[str, Tensor]:
    """The masks train, val and test; none without a column."""
    if column is None:
        return {}
    cells = table.text[column]
    parts = torch.tensor([SPLITS.get(cell.lower(), 4) for cell in cells])
    for index in ((parts == 4) | (parts < 3) & (y == UNKNOWN)).nonzero().flatten().tolist():
        cell = cells[index]
        if parts[index] == 4:
            table.refuse_cell(index, column, cell, "train, val, test or nothing")
        else:
            wrong = f"the node is in {cell!r} but has no label: give one, or empty {column!r}"
            table.refuse(index, wrong)
    return {mask: parts == number for number, mask in enumerate(MASKS)}


def read_edges(
    path: Path,
    nodes: Table,
    ids: Mapping[str, int],
    *,
    id_column: str | None,
    strangers: str,
    weight: str | None,
) -> tuple[Tensor, Tensor | None]:
    """Both ends of every edge, (2, edges), and the weights, if their column is named."""
    file, weights, problems = open_table(path), None, nodes.problems
    ends = find_ends(file, ids, problems, weight)
    table = read_table(file, problems, text=ends, numbers=[weight] if weight else [])
    if weight is not None:
        weights = torch.from_numpy(table.numbers[weight].values)
        unusable = ~(torch.isfinite(weights) & (weights > 0))
        for index in unusable.nonzero().flatten().tolist():
            table.refuse_cell(index, weight, table.text[weight][index], "a number above 0")
    names = [table.text[end] for end in ends]
    edges = torch.stack([_numbered(end, ids, -1) for end in names])
    if not edges.numel():
        problems.warnings.append(
            f"{path.name} has no rows below its header: no node has a neighbour"
        )
    elif id_column is None and not (edges == 0).any():
        problems.warnings.append(
            f"{path.name} never names node 0, and without an id column rows are counted from 0: if "
            "yours count from 1, put the numbers into a column and give --id"
        )
    strange = (edges < 0).any(0)
    count = int(strange.sum())
    if 2 * count > len(strange):
        mentioned = {*names[0], *names[1]} - {""}
        if (hint := _other_ids(nodes.file, ids, id_column, mentioned)) is not None:
            raise GraphError(f"{path.name} {hint}")
    if strangers == "drop":
        dropped = f"dropped: edges to nodes that are not in the table, {count:,}"
        if 2 * count > len(strange):
            problems.warnings.append(
                f"{dropped} of {len(strange):,}: predictions lean on neighbours, so they will be worse; "
                "--with OLD.graph has the nodes at the other ends"
            )
        elif count:
            problems.notes.append(dropped)
        return edges[:, ~strange], None if weights is None else weights[~strange]
    for index in strange.nonzero().flatten().tolist():
        for end in ends:
            name = table.text[end][index]
            if not name:
                table.refuse(index, f"{end!r} is empty")
            elif name not in ids:
                kind = (
                    f"{end!r} is not the id of any node (--with OLD.graph adds the nodes of a graph you "
                    "have; --strangers drop leaves such edges out)"
                )
                wrong = f"{end!r} is {name!r}, not the id of any node"
                table.refuse(index, wrong, kind=kind, cell=name)
    return edges, weights


def find_ends(
    file: TableFile, ids: Mapping[str, int], problems: Problems, weight: str | None
) -> list[str]:
    """The columns with both ends: by their usual names, else the two that hold ids, or the only two."""
    columns = data_columns(file, problems)
    if len(columns) < 2:
        single = f"the single column {columns[0]!r}" if columns else "no column with a name"
        raise GraphError(f"{file.name} has {single}, expected two, such as source,target")
    lower = {name.lower(): name for name in reversed(columns)}
    named = ([lower[end] for end in pair] for pair in ENDS if set(pair) <= set(lower))
    ends = next(named, None) or _columns_of_ids(file, [n for n in columns if n != weight], ids)
    if all(name in ids for name in ends):
        raise GraphError(
            f"{file.name} begins with {','.join(ends)}, which are node ids: give it a first row "
            "that names its columns, such as source,target"
        )
    if weight is not None:
        check_option("weight", weight, columns, file.name)
    if ignored := [name for name in columns if name not in (*ends, weight)]:
        same = "" if weight else "; all edges weigh the same (--weight COLUMN reads weights)"
        unused = f"not used are {', '.join(ignored)}, as no model here reads features of edges"
        problems.notes.append(f"{file.name}: {unused}{same}")
    return ends


def _columns_of_ids(file: TableFile, columns: list[str], ids: Mapping[str, int]) -> list[str]:
    if len(columns) == 2:
        return columns
    held = list[str]()
    if ids:  # a table larger than memory is not read for it
        table = read_table(file, Problems(), text=columns)
        known = {name: sum(map(ids.__contains__, table.text[name])) for name in columns}
        held = [name for name, count in known.items() if 2 * count > len(table.rows)]
    if len(held) != 2:
        raise GraphError(
            f"{file.name} has the columns {listed(columns)}, of which {listed(held) or 'none'} hold ids "
            "of nodes: call the two with the ends of an edge source and target"
        )
    return held


def _other_ids(
    file: TableFile, ids: Mapping[str, int], column: str | None, mentioned: set[str]
) -> str | None:
    """Where the ends of edges are, if most are not ids: in another column, or rewritten as numbers."""
    table = read_table(file, Problems(), text=[name for name in file.columns if name])
    for name, cells in table.text.items():
        common = mentioned.intersection(cells) if name != column else set[str]()
        if 2 * len(common) > len(mentioned) and len(set(cells)) == len(cells):
            return (
                f"names nodes by values such as {min(common)!r}, which are in column {name!r} of "
                f"{file.name}, a different one in every row: give --id {name}"
            )
    whole = {number: end for end in mentioned if (number := _id_number(end)) is not None}
    pairs = {whole[number]: name for name in ids if (number := _id_number(name)) in whole}
    if 2 * len(pairs) <= len(mentioned):
        return None
    end = min(pairs)
    return (
        f"names a node {end!r} that the table of nodes calls {pairs[end]!r}: a spreadsheet rewrites "
        f"ids that look like numbers; {AS_TEXT}"
    )


def _id_number(name: str) -> int | None:
    whole = re.fullmatch(r"(\d{1,18})(?:[.,]0+)?", name)
    return int(whole[1]) if whole else None
