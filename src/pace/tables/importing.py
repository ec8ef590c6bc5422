"""A user's own tables as a dataset; what is wrong with them is said all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from torch import Tensor

from pace.datasets.dataset import Dataset, Names
from pace.errors import GraphError, SettingError, did_you_mean
from pace.graph import Graph
from pace.tables import decimals, encode
from pace.tables.codebook import BOTH, DIRECTIONS, MISSING, Codebook
from pace.tables.edges import ends, note_merged
from pace.tables.encode import Change
from pace.tables.features import features, unscaled
from pace.tables.nodes import clients, ids, labels, masks
from pace.tables.problems import Problems
from pace.tables.table import Table
from pace.tables.tables import header, named, read

STRANGERS = ("refuse", "drop")  # what becomes of edges to nodes that are not in the table
ENOUGH = 20  # rows from which a whole number that is different in each looks like an id


@dataclass(frozen=True)
class Columns:
    """Which columns of the table of nodes mean what."""

    label: str | None = None  # default: the codebook's, else no node has a label
    id: str | None = None  # default: the codebook's, a column called id, else rows are numbered
    features: str | None = None  # names or prefixes, by commas; default: all that is left
    client: str | None = None
    split: str | None = None
    classes: str | None = None  # all class names in order, by commas; default: those that occur
    decimal: str | None = None  # comma or point, where the table does not show it
    strangers: str = "refuse"  # or drop
    weight: str | None = None  # of the table of edges; default: the codebook's, else none
    directions: str | None = None  # both or keep; default: the codebook's, else both


@dataclass(frozen=True, eq=False)
class Imported:
    """The dataset, and what was done on the way that the user should know."""

    dataset: Dataset
    notes: list[str]
    changes: list[Change] = field(default_factory=list)  # by the codebook, to which rows
    warnings: list[str] = field(default_factory=list)  # what will mislead, if it is left so


def import_graph(
    nodes: Path, edges: Path, columns: Columns, name: str = "mine", codebook: Codebook | None = None
) -> Imported:
    """The dataset of two tables, or one error that lists every problem."""
    decimals.check(columns.decimal)
    if columns.strangers not in STRANGERS:
        raise SettingError(
            f"--strangers is {columns.strangers!r}, expected {' or '.join(STRANGERS)}"
        )
    directions = _directions(columns.directions, codebook)
    problems, notes = Problems(), list[str]()
    changes: list[Change] = []
    names = header(nodes)
    special = _special(columns, codebook, names, nodes.name, notes)
    if codebook is None:
        left = named(nodes, [name for name in names if name not in special.values()], notes)
        chosen = _chosen(columns.features, left, nodes.name)
        table = _read(nodes, list(special.values()), chosen, columns, problems)
    else:
        table = _read_by(codebook, nodes, special, names, columns, problems, notes)
    notes += table.notes
    numbered = ids(table, special.get("id"), problems)
    if codebook is None:
        x, feature_names = features(table, problems, notes)
        listed = _classes(columns.classes)
    else:
        x, feature_names = encode.encode(table, codebook, problems, changes), codebook.features
        listed = list(codebook.classes)
    absent = MISSING if codebook is None else codebook.missing
    y, class_names = labels(table, special.get("label"), listed, problems, notes, absent)
    owner, client_names = clients(table, columns.client, problems)
    split = masks(table, columns.split, y, problems)

    def suggest(ends: set[str]) -> str | None:
        return suggested_id(nodes, names, special.get("id"), ends)

    found, weights = ends(
        edges,
        numbered,
        problems,
        notes,
        strangers=columns.strangers,
        weight=columns.weight or (codebook and codebook.weight) or None,
        suggest=suggest,
    )
    problems.stop()
    graph = Graph.build(x, found, y, **split, weights=weights, directed=directions != BOTH)
    note_merged(found, graph, notes)
    called = Names(class_names, feature_names, client_names, tuple(numbered))
    dataset = Dataset(name, graph, len(class_names), owner=owner, names=called)
    warnings = _warnings(table, special, x, feature_names)
    return Imported(dataset, notes, changes, warnings)


def _directions(asked: str | None, book: Codebook | None) -> str:
    """Of the edges: what all sites agreed on, else what was asked for, else both."""
    if asked not in (None, *DIRECTIONS):
        raise SettingError(f"--directions is {asked!r}, expected {' or '.join(DIRECTIONS)}")
    if book is not None and asked not in (None, book.directions):
        raise SettingError(
            f"--directions is {asked!r}, but the codebook says {book.directions!r}: leave it out"
        )
    return asked or (BOTH if book is None else book.directions)


def _read(
    nodes: Path, text: list[str], numbers: list[str], columns: Columns, problems: Problems
) -> Table:
    table = read(nodes, text=text, numbers=numbers, problems=problems, decimal=columns.decimal)
    if not table.rows:
        raise GraphError(f"{nodes.name} has no rows below its header: a graph needs nodes")
    return table


def _read_by(
    book: Codebook,
    nodes: Path,
    special: dict[str, str],
    names: Sequence[str],
    columns: Columns,
    problems: Problems,
    notes: list[str],
) -> Table:
    """The columns that the codebook names; what it does not name is not used."""
    if columns.features or columns.classes:
        raise SettingError(
            "--features and --classes do not go with a codebook, which says both: leave them out"
        )
    wanted = [column.name for column in book.columns]
    if absent := [name for name in wanted if name not in names]:
        shown = ", ".join(map(repr, absent[:12]))
        raise GraphError(
            f"{nodes.name} lacks {shown}, which the codebook asks for; {did_you_mean(absent[0], names)}"
            f"it has {_listed(names)}: rename the column, or agree on a codebook without it"
        )
    known = {*wanted, *special.values()}
    if unused := [name for name in names if name and name not in known]:
        notes.append(f"{nodes.name}: not in the codebook, so not used: {_listed(unused)}")
    words, numbers = encode.reading(book)
    return _read(nodes, [*special.values(), *words], numbers, columns, problems)


def _special(
    columns: Columns, book: Codebook | None, names: Sequence[str], file: str, notes: list[str]
) -> dict[str, str]:
    """The columns that are no features, by what they mean."""
    asked = {"label": columns.label, "id": columns.id, "client": columns.client}
    found = {kind: name for kind, name in (asked | {"split": columns.split}).items() if name}
    for kind, name in found.items():
        if name not in names:
            raise SettingError(f"--{kind} is {name!r}: {_unknown(name, names, file)}")
    if book is not None and "label" not in found:
        if book.label in names:
            found["label"] = book.label
        else:
            notes.append(f"{file}: no column {book.label!r}, so no node has a label")
    default = "id" if book is None else book.id
    other_case = [name for name in names if name.lower() == "id" and name not in found.values()]
    if book is None and "id" not in names and len(other_case) == 1:
        default = other_case[0]
        notes.append(f"{file}: {default!r} is taken as the id (else: --id)")
    if "id" not in found and default in names and default not in found.values():
        found["id"] = default
    elif "id" not in found and book is not None and book.id != "id":
        raise SettingError(
            f"{file} has no column {default!r}, the codebook's id: name yours with --id; it has "
            f"{_listed(names)}"
        )
    return found


def suggested_id(
    nodes: Path, names: Sequence[str], current: str | None, ends: set[str]
) -> str | None:
    """A sentence that names the column in which the edges' ends stand, each once."""
    table = read(nodes, text=[name for name in names if name], problems=Problems())
    for name, cells in table.text.items():
        values = set(cells)
        if name != current and len(values) == len(cells) and 2 * len(ends & values) > len(ends):
            example = min(ends & values)
            return (
                f"names nodes by values such as {example!r}, which stand in column {name!r} of "
                f"{nodes.name}, a different one in every row: give --id {name}"
            )
    return None


def _warnings(
    table: Table, special: dict[str, str], x: Tensor, feature_names: Sequence[str]
) -> list[str]:
    said = []
    if "id" not in special:
        for name, numbers in table.numbers.items():
            values = numbers.values[:, 0] if numbers.values.shape[1] == 1 else np.zeros(0)
            whole = len(values) >= ENOUGH and (values == np.round(values)).all()
            if whole and len(np.unique(values)) == len(values):
                said.append(
                    f"column {name!r} has a different whole number in every row and is used as a "
                    f"feature: if it is an id, give --id {name}"
                )
    if (sentence := unscaled(x, feature_names)) is not None:
        said.append(sentence)
    return said


def _chosen(features: str | None, names: Sequence[str], file: str) -> list[str]:
    """The feature columns: exact names first, else all that begin with the word."""
    if features is None:
        if not names:
            raise SettingError(f"{file} has no column left for features: a node needs some")
        return list(names)
    chosen: dict[str, None] = {}
    for word in filter(None, (word.strip() for word in features.split(","))):
        prefix = word.removesuffix("*")
        found = [word] if word in names else [name for name in names if name.startswith(prefix)]
        if not found:
            raise SettingError(f"--features names {word!r}: {_unknown(word, names, file)}")
        chosen |= dict.fromkeys(found)
    if not chosen:
        raise SettingError("--features is empty: name columns or a prefix, separated by commas")
    return list(chosen)


def _classes(given: str | None) -> list[str]:
    """The names of --classes, in order; none if they are not given."""
    listed = [name.strip() for name in given.split(",")] if given else []
    if "" in listed or len(set(listed)) < len(listed):
        raise SettingError(
            f"--classes is {given!r}: name each class once, separated by single commas"
        )
    return listed


def _unknown(name: str, names: Sequence[str], file: str) -> str:
    return f"{file} has no such column; {did_you_mean(name, names)}it has {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
