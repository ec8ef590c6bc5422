"""A user's own tables as a dataset; everything that is wrong with them is reported at once."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pace.datasets import SITE_RATIOS, Dataset, Names
from pace.errors import GraphError, SettingError, did_you_mean
from pace.graph import Graph
from pace.io import plain_record
from pace.tables.codebook import AS_TEXT, BOTH, DIRECTIONS, Codebook
from pace.tables.features import (
    Change,
    encode_columns,
    infer_columns,
    told_by_features,
    unscaled_features,
)
from pace.tables.graph_parts import (
    NodeIds,
    number_nodes,
    read_clients,
    read_edges,
    read_labels,
    read_masks,
)
from pace.tables.mapping import ColumnMapping, open_mapped
from pace.tables.problems import Problems, check_choice, listed
from pace.tables.table import Table, TableFile, check_option, data_columns, read_table
from pace.tables.words import MISSING

SPECIAL = ("label", "id", "client", "split")  # kinds of columns that are no features
Parts = tuple[Tensor, Tensor, Tensor, Tensor | None]  # features, labels, edges and their weights


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
        """Notes, changes and warnings as JSON has them."""
        changes = [vars(change) | {"rows": change.rows.tolist()} for change in self.changes]
        return {"notes": self.notes, "changes": changes, "warnings": self.warnings}


class Plan:
    """How a table of nodes is read: what the options and the codebook say together."""

    def __init__(self, nodes: Path, columns: Columns, codebook: Codebook | None) -> None:
        self.codebook, self.problems = codebook, Problems()
        self.classes = _check_settings(columns, codebook)
        columns, self.ratios = _shares(columns)
        self.missing = codebook.missing if codebook else MISSING
        self.file = open_mapped(nodes, columns.mapping)
        self.columns = _settled(columns, codebook, self.file, self.problems.notes)
        self.directed = self.columns.directions != BOTH
        self.features = list(codebook.columns) if codebook else []
        self.text = [name for kind in SPECIAL if (name := getattr(self.columns, kind))]
        if codebook is None:
            left = data_columns(self.file, self.problems, without=self.text)
            self.numbers = _feature_columns(columns.features, left, self.file.name)
        else:
            _check_columns(codebook, self.file, self.text, self.problems.notes)
            self.text += [c.name for c in codebook.columns if c.kind in AS_TEXT]
            self.numbers = [c.name for c in codebook.columns if c.kind not in AS_TEXT]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all features."""
        return tuple(feature for column in self.features for feature in column.features)

    def encode(
        self, table: Table, changes: list[Change]
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Features, labels and masks of a table's rows; `changes` gets what a codebook did to which."""
        known = None if self.codebook is None else changes
        x = encode_columns(table, self.features, self.missing, known)
        y, self.classes = read_labels(table, self.columns.label, self.classes, self.missing)
        return x, y, read_masks(table, self.columns.split, y)


def import_graph(
    nodes: Path, edges: Path, columns: Columns, name: str = "mine", codebook: Codebook | None = None
) -> Imported:
    """The dataset of two tables; a ProblemsError lists everything that is wrong with them."""
    plan, changes = Plan(nodes, columns, codebook), list[Change]()
    problems, columns = plan.problems, plan.columns
    table = read_table(
        plan.file, problems, text=plan.text, numbers=plan.numbers, decimal=columns.decimal
    )
    if not table.rows:
        raise GraphError(f"{nodes.name} has no rows below its header: a graph needs nodes")
    ids = number_nodes(table, columns.id)
    plan.features = plan.features or infer_columns(table)
    x, y, masks = plan.encode(table, changes)
    owner, clients = read_clients(table, columns.client)
    if masks and not torch.stack([*masks.values()]).any():
        table.refuse(None, f"split column {columns.split!r} is empty in every row")
    if columns.known is not None:
        ids = _with_known(ids, columns.known)
    ends, weights = read_edges(edges, ids, columns, problems)
    problems.stop()
    unscaled = unscaled_features(x, plan.names) if codebook is None else None
    problems.warnings += filter(None, (unscaled, told_by_features(x, y, plan.names)))
    rows, given = len(table.rows), ends.shape[1]
    del table
    names = Names(plan.classes, plan.names, clients, tuple(ids.names))
    if columns.known is not None:
        x, y, ends, weights = _joined(columns.known, names, ids, (x, y, ends, weights))
        masks = {mask: torch.cat([m, m.new_zeros(len(y) - rows)]) for mask, m in masks.items()}
    del ids
    graph = Graph.build(x, ends, y, **masks, weights=weights, directed=plan.directed)
    kept = graph.edges.shape[1] // (1 if plan.directed else 2)
    if columns.known is None and kept < given:
        merged = "merged or dropped: edges given twice, in both directions or from a node to itself"
        problems.notes.append(f"{merged}, {given - kept:,}")
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


def _with_known(ids: NodeIds, known: Dataset) -> NodeIds:
    """The table's ids, then those of a graph that are not in the table."""
    if not known.names.nodes:
        raise GraphError(f"{known.name} knows no ids of its nodes: import it again with --id")
    new = ids.numbers(known.names.nodes) < 0
    return NodeIds([*ids.names, *compress(known.names.nodes, new)])


def _joined(known: Dataset, names: Names, ids: NodeIds, parts: Parts) -> Parts:
    """Features, labels, edges and weights of the table's nodes, then of the graph's other nodes."""
    (x, y, ends, weights), graph = parts, known.graph
    for kind in ("features", "classes"):
        if (mine := getattr(names, kind)) != (theirs := getattr(known.names, kind)):
            other = f"has other {kind} ({listed(theirs)}) than the table ({listed(mine)})"
            raise GraphError(f"{known.name} {other}: import both by one codebook")
    if (weights is None) != (graph.weights is None):
        raise GraphError(f"either the edges of {known.name} or the table's have weights: give both")
    place = torch.from_numpy(ids.numbers(known.names.nodes))
    others = place >= len(x)
    if weights is not None and graph.weights is not None:
        weights = torch.cat([weights, graph.weights])
    ends = torch.cat([ends, place[graph.edges]], dim=1)
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
    classes = tuple(name.strip() for name in (columns.classes or "").split(","))
    if columns.classes and ("" in classes or len(set(classes)) < len(classes)):
        raise SettingError(f"--classes is {columns.classes!r}: name each once, by single commas")
    return classes if columns.classes else ()


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
    chosen: dict[str, None] = {}
    for word in filter(None, (word.strip() for word in features.split(","))):
        matches = [word] if word in names else [name for name in names if name.startswith(word)]
        if not matches:
            check_option("features", word, names, file)
        chosen |= dict.fromkeys(matches)
    if not chosen:
        raise SettingError("--features is empty: name columns or a prefix, by commas")
    return list(chosen)
