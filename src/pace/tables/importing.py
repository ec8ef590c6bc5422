"""A user's own tables as a dataset; everything that is wrong with them is reported at once."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pace.datasets import SITE_RATIOS, Dataset, Names
from pace.errors import GraphError, SettingError, did_you_mean
from pace.graph import MASKS, UNKNOWN, Graph
from pace.io import many, plain_record
from pace.tables.cells import Array, Words, is_number
from pace.tables.codebook import AS_TEXT, BOTH, DIRECTIONS, Codebook, Column
from pace.tables.dates import are_dates
from pace.tables.features import Change, encode_columns, infer_columns, leakage, unscaled_features
from pace.tables.mapping import ColumnMapping, open_mapped
from pace.tables.problems import Problems, check_choice, listed
from pace.tables.table import Table, TableFile, check_option, data_columns, open_table, read_table
from pace.tables.words import MEANINGS, MISSING, alike_notes, in_order, integer, missing_among

SPECIAL = ("label", "id", "client", "split")  # kinds of columns that are no features
Parts = tuple[Tensor, Tensor, Tensor, Tensor | None]  # features, labels, edges and their weights
REWRITTEN = re.compile(r"\d[.,]\d+[eE]\+\d+")  # 1.23E+12
SPLITS = {"train": 1, "val": 2, "valid": 2, "validation": 2, "test": 3, "": 0, "none": 0}


@dataclass(frozen=True)
class Columns:
    """Which columns of the tables mean what, and how they are read."""

    label: str | None = None  # default: the codebook's, else no node has a label
    id: str | None = None  # default: the codebook's, a column called id, else rows are numbered
    features: str | None = None  # names or prefixes, by commas; default: all that is left
    client: str | None = None
    split: str | None = None  # a column, or shares such as 60/20/20
    classes: str | None = None  # all class names in order, by commas; default: those that occur
    decimal: str | None = None  # comma or point, where the table does not show it
    strangers: str = "refuse"  # edges to nodes that are not in the table; or drop
    weight: str | None = None  # of the table of edges; default: the codebook's, else none
    directions: str | None = None  # both or keep; default: the codebook's, else both
    known: Dataset | None = None  # a graph whose nodes the edges may lead to
    mapping: ColumnMapping | None = None  # how the table's own columns become the agreed ones


@dataclass(frozen=True, eq=False)
class Imported:
    """The dataset, and what was done on the way that the user should know."""

    dataset: Dataset
    notes: list[str]
    changes: list[Change] = field(default_factory=list)  # by the codebook, to which rows
    warnings: list[str] = field(default_factory=list)  # what will mislead, if it is left so
    rows: int = 0  # nodes of the table; those of `Columns.known` follow them

    def remarks(self) -> dict[str, Any]:
        changes = [vars(change) | {"rows": change.rows.tolist()} for change in self.changes]
        return {"notes": self.notes, "changes": changes, "warnings": self.warnings}


class NodeIds:
    """What nodes are called, and their numbers by hash: a dict of many strings takes much memory."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, hashes = names, _hashes(names)
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    def numbers(self, names: Sequence[str]) -> Array:
        """The number of each named node, -1 where there is none; of nodes of one name, the first."""
        wanted = _hashes(names)
        ordered, places = np.unique(wanted, return_inverse=True)  # so, ten times as fast
        ranks = np.searchsorted(self._hashes, ordered)[places]
        ranks[ranks == len(self._hashes)] = 0
        known = (self._hashes[ranks] == wanted) & (wanted != hash(""))
        return np.where(known, self._order[ranks], -1)


def _hashes(names: Sequence[str]) -> Array:
    return np.fromiter(map(hash, names), np.int64, len(names))


class Plan:
    """How a table of nodes is read: what the options and the codebook say together."""

    def __init__(self, nodes: Path, columns: Columns, codebook: Codebook | None) -> None:
        self.codebook, self.problems = codebook, Problems()
        self.classes = _check_settings(columns, codebook)
        columns, self.ratios = _shares(columns)
        self.file = open_mapped(nodes, columns.mapping)
        self.columns = _settled(columns, codebook, self.file, self.problems.notes)
        self.directed = self.columns.directions != BOTH
        self.text = [name for kind in SPECIAL if (name := getattr(self.columns, kind))]
        if codebook is None:
            self.missing, self.features = MISSING, list[Column]()  # inferred from the rows
            left = data_columns(self.file, self.problems, without=self.text)
            self.numbers = _feature_columns(columns.features, left, self.file.name)
        else:
            self.missing, self.features = codebook.missing, list(codebook.columns)
            _check_columns(codebook, self.file, self.text, self.problems.notes)
            self.text += [c.name for c in codebook.columns if c.kind in AS_TEXT]
            self.numbers = [c.name for c in codebook.columns if c.kind not in AS_TEXT]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(feature for column in self.features for feature in column.features)

    def encode(self, table: Table, changes: list[Change]) -> tuple[Tensor, Tensor, Tensor]:
        """Features, labels and split of a table's rows; `changes` gets what a codebook did to which."""
        known = None if self.codebook is None else changes
        x = encode_columns(table, self.features, self.missing, known)
        y, self.classes = read_labels(table, self.columns.label, self.classes, self.missing)
        return x, y, read_split(table, self.columns.split, y)


def import_graph(
    nodes: Path, edges: Path, columns: Columns, name: str = "mine", codebook: Codebook | None = None
) -> Imported:
    """The dataset of two tables; a ProblemsError lists everything that is wrong with them."""
    plan, changes = Plan(nodes, columns, codebook), list[Change]()
    problems, columns, decimal = plan.problems, plan.columns, columns.decimal
    table = read_table(plan.file, problems, text=plan.text, numbers=plan.numbers, decimal=decimal)
    if not table.rows:
        raise GraphError(f"{nodes.name} has no rows below its header: a graph needs nodes")
    ids = number_nodes(table, columns.id)
    plan.features = plan.features or infer_columns(table)
    x, y, split = plan.encode(table, changes)
    owner, clients = read_clients(table, columns.client)
    if columns.split and not split.any():
        table.refuse(None, f"split column {columns.split!r} is empty in every row")
    if (known := columns.known) is not None:
        if not known.names.nodes:
            raise GraphError(f"{known.name} knows no ids of its nodes: import it again with --id")
        new = ids.numbers(known.names.nodes) < 0
        ids = NodeIds([*ids.names, *compress(known.names.nodes, new)])
    ends, weights = read_edges(edges, ids, columns, problems)
    problems.stop()
    unscaled = unscaled_features(x, plan.names) if codebook is None else None
    problems.warnings += filter(None, (unscaled, leakage(x, y, plan.names)))
    rows, edge_rows = len(table.rows), ends.shape[1]
    del table
    names = Names(plan.classes, plan.names, clients, tuple(ids.names))
    if known is not None:
        x, y, ends, weights = _joined(known, names, ids, (x, y, ends, weights))
        split = torch.cat([split, split.new_zeros(len(y) - rows)])
    del ids
    masks = {mask: split == number for number, mask in enumerate(MASKS, start=1)}
    graph = Graph.build(x, ends, y, **masks, weights=weights, directed=plan.directed)
    merged = edge_rows - graph.edges.shape[1] // (1 if plan.directed else 2)
    if known is None and merged > 0:
        why = "edges given twice, in both directions or from a node to itself"
        problems.notes.append(f"merged or dropped: {why}, {merged:,}")
    mapping = plain_record(columns.mapping) if columns.mapping else {}
    dataset = Dataset(
        name, graph, len(names.classes), plan.ratios, owner=owner, names=names, mapping=mapping
    )
    return Imported(dataset, problems.notes, changes, problems.warnings, rows)


def _shares(columns: Columns) -> tuple[Columns, tuple[float, float, float]]:
    """The shares of train, validation and test, and the columns without them in place of a column."""
    parts = re.fullmatch(r"(\d+)/(\d+)/(\d+)", columns.split or "")
    if parts is None:
        return columns, SITE_RATIOS
    train, val, test = (int(part) / 100 for part in parts.groups())
    if round(train + val + test, 9) != 1 or not train * val:
        expected = "expected percents that add up to 100, such as 60/20/20"
        raise SettingError(f"--split is {columns.split}, {expected}")
    return replace(columns, split=None), (train, val, test)


def _joined(known: Dataset, names: Names, ids: NodeIds, parts: Parts) -> Parts:
    """Features, labels, edges and weights of the table's nodes, then of the graph's other nodes."""
    (x, y, ends, weights), graph = parts, known.graph
    for kind in ("features", "classes"):
        if (mine := getattr(names, kind)) != (theirs := getattr(known.names, kind)):
            other = f"has other {kind} ({listed(theirs)}) than the table ({listed(mine)})"
            raise GraphError(f"{known.name} {other}: import both by one codebook")
    if (weights is None) != (graph.weights is None):
        raise GraphError(f"either the edges of {known.name} or the table's have weights: give both")
    numbers = torch.from_numpy(ids.numbers(known.names.nodes))
    others = numbers >= len(x)
    if weights is not None and graph.weights is not None:
        weights = torch.cat([weights, graph.weights])
    ends = torch.cat([ends, numbers[graph.edges]], dim=1)
    return torch.cat([x, graph.x[others]]), torch.cat([y, graph.y[others]]), ends, weights


def _check_settings(columns: Columns, book: Codebook | None) -> tuple[str, ...]:
    """The classes in order, of --classes or the codebook; none if neither says them."""
    check_choice("--strangers", columns.strangers, ("refuse", "drop"))
    check_choice("--directions", columns.directions or BOTH, DIRECTIONS)
    if book is not None:
        if columns.directions not in (None, book.directions):
            wrong = f"--directions is {columns.directions!r}, but the codebook says"
            raise SettingError(f"{wrong} {book.directions!r}: leave it out")
        if columns.features or columns.classes:
            raise SettingError("--features and --classes do not go with a codebook: leave them out")
        return book.classes
    if not columns.classes:
        return ()
    classes = tuple(name.strip() for name in columns.classes.split(","))
    if "" in classes or len(set(classes)) < len(classes):
        raise SettingError(f"--classes is {columns.classes!r}: name each once, by single commas")
    return classes


def _settled(columns: Columns, book: Codebook | None, file: TableFile, notes: list[str]) -> Columns:
    """The options and what the codebook and the table say beyond them; the agreed names of columns."""
    names, called = file.columns, columns.mapping.called if columns.mapping else str
    special = {kind: called(name) for kind in SPECIAL if (name := getattr(columns, kind))}
    for kind, name in special.items():
        check_option(kind, name, names, file.name)
    if book is not None and "label" not in special:
        if book.label in names:
            special["label"] = book.label
        else:
            notes.append(f"{file.name}: no column {book.label!r}, so no node has a label")
    default = "id" if book is None else book.id
    other_case = [name for name in names if name.lower() == "id" and name not in special.values()]
    if not (book or "id" in special or "id" in names) and len(other_case) == 1:
        default = other_case[0]
        notes.append(f"{file.name}: {default!r} is taken as the id (else: --id)")
    if default in names and default not in special.values():
        special.setdefault("id", default)
    elif "id" not in special and default != "id":
        wrong = f"no column {default!r}, the codebook's id: name yours with --id"
        raise SettingError(f"{file.name} has {wrong}; it has {listed(names, 12)}")
    weight = columns.weight or (book and book.weight) or None
    directions = columns.directions or (book.directions if book else BOTH)
    settled: dict[str, Any] = dict.fromkeys(SPECIAL) | special
    return replace(columns, **settled, weight=weight, directions=directions)


def _check_columns(book: Codebook, file: TableFile, used: Sequence[str], notes: list[str]) -> None:
    """The table must have the codebook's columns; others are not used."""
    wanted = [column.name for column in book.columns]
    present = set(file.columns)
    if absent := [name for name in wanted if name not in present]:
        raise GraphError(
            f"{file.name} lacks {listed([*map(repr, absent)], 12)}, which the codebook asks for; "
            f"{did_you_mean(absent[0], present)}it has {listed(file.columns, 12)}"
        )
    known = {"", *wanted, *used}
    if unused := [name for name in file.columns if name not in known]:
        notes.append(f"{file.name}: not in the codebook, so not used: {listed(unused, 12)}")


def _feature_columns(features: str | None, names: Sequence[str], file: str) -> list[str]:
    """The feature columns: exact names first, else all that begin with the word."""
    if features is None:
        if not names:
            raise SettingError(f"{file} has no column left for features: a node needs some")
        return list(names)
    chosen = list[str]()
    for word in filter(None, map(str.strip, features.split(","))):
        matches = [word] if word in names else [name for name in names if name.startswith(word)]
        if not matches:
            check_option("features", word, names, file)
        chosen += matches
    if not chosen:
        raise SettingError("--features is empty: name columns or a prefix, by commas")
    return list(dict.fromkeys(chosen))


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
    if name.lower() in MEANINGS["sums"]:
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
    table: Table, column: str, counts: Counter[str], classes: Sequence[str], missing: Sequence[str]
) -> dict[str, str]:
    """What each cell means: its class, whole numbers in one spelling, or '' where it is unknown."""
    absent = {word.lower() for word in missing_among(counts, missing)} - {""}
    unknown = sorted(cell for cell in counts if cell.lower() in absent and cell not in classes)
    if unknown:
        rows = many(sum(counts[cell] for cell in unknown), "row")
        read = f"{', '.join(map(repr, unknown))} read as unknown, in {rows} (else: --classes)"
        table.problems.notes.append(f"label {column!r}: {read}")
    words = [cell for cell in counts if cell and cell not in unknown]
    whole = {cell: integer(cell) for cell in words}
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
    if are_dates(names) or (labelled >= 20 and 2 * len(names) > labelled):
        classes = f"{len(names):,} classes in {labelled:,} rows, such as {names[0]!r}"
        table.refuse(None, f"{label} holds {classes}: PACE learns classes that recur")
    if len(names) == 1:
        warnings.append(f"{label} is {names[0]!r} in every row: nothing can be learnt from it")
    if unknown := [name for name in names if name.lower() in MEANINGS["unknown"]]:
        warnings.append(f"{label}: {unknown[0]!r} is learnt as a class; empty it if it is none")


def _numbered(cells: Sequence[str], numbers: Mapping[str, int]) -> Tensor:
    return torch.from_numpy(np.fromiter(map(numbers.__getitem__, cells), np.int64, len(cells)))


def _several_classes(labels: Collection[str]) -> str | None:
    """A label that is a list of others: every part of it occurs in another label too."""
    for separator in ";|,+/&":
        parts = {label: {part.strip() for part in label.split(separator)} for label in labels}
        counts = Counter(part for words in parts.values() for part in words)
        for label, words in sorted(parts.items()):
            if len(words) > 1 and "" not in words and all(counts[part] > 1 for part in words):
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


def read_split(table: Table, column: str | None, y: Tensor) -> Tensor:
    """1, 2 and 3 for nodes that train, validate and test, else 0; so are all without a column."""
    if column is None:
        return torch.zeros(len(y), dtype=torch.uint8)
    cells = table.text[column]
    parts = torch.tensor([SPLITS.get(cell.lower(), 4) for cell in cells], dtype=torch.uint8)
    for index in ((parts == 4) | (parts > 0) & (y == UNKNOWN)).nonzero().flatten().tolist():
        if parts[index] == 4:
            table.refuse_cell(index, column, "train, val, test or nothing")
        else:
            part = cells[index]
            wrong = f"the node is in {part!r} but has no label: give one, or empty {column!r}"
            table.refuse(index, wrong)
    return parts


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
    named = ([lower[end] for end in pair] for pair in MEANINGS["ends"] if set(pair) <= set(lower))
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
