"""A user's own tables as a dataset; what is wrong with them is said all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pace.data.dataset import Dataset, Names
from pace.data.edges import ends, note_merged
from pace.data.features import features
from pace.data.nodes import clients, ids, labels, masks
from pace.data.problems import Problems
from pace.data.tables import header, named, read
from pace.errors import GraphError, SettingError, did_you_mean
from pace.graph import Graph


@dataclass(frozen=True)
class Columns:
    """Which columns of the table of nodes mean what."""

    label: str
    id: str | None = None  # default: a column called id, else rows are numbered from 0
    features: str | None = None  # names or prefixes, by commas; default: all that is left
    client: str | None = None
    split: str | None = None
    classes: str | None = None  # all class names in order, by commas; default: those that occur


@dataclass(frozen=True, eq=False)
class Imported:
    """The dataset, and what was done on the way that the user should know."""

    dataset: Dataset
    notes: list[str]


def import_graph(nodes: Path, edges: Path, columns: Columns, name: str = "mine") -> Imported:
    """The dataset of two tables, or one error that lists every problem."""
    problems, notes = Problems(), list[str]()
    names = header(nodes)
    special = _special(columns, names, nodes.name)
    left = named(nodes, [name for name in names if name not in special.values()], notes)
    chosen = _chosen(columns.features, left, nodes.name)
    table = read(nodes, text=list(special.values()), numbers=chosen, problems=problems)
    if not table.rows:
        raise GraphError(f"{nodes.name} has no rows below its header: a graph needs nodes")
    numbered = ids(table, special.get("id"), problems)
    x, feature_names = features(table, problems, notes)
    y, class_names = labels(table, columns.label, _classes(columns.classes), problems)
    owner, client_names = clients(table, columns.client, problems)
    split = masks(table, columns.split, y, problems)
    found = ends(edges, numbered, problems, notes)
    problems.stop()
    graph = Graph.build(x, found, y, **split)
    note_merged(found, graph, notes)
    called = Names(class_names, feature_names, client_names, tuple(numbered))
    return Imported(Dataset(name, graph, len(class_names), owner=owner, names=called), notes)


def _special(columns: Columns, names: Sequence[str], file: str) -> dict[str, str]:
    """The columns that are no features, by what they mean."""
    asked = {"label": columns.label, "id": columns.id, "client": columns.client}
    found = {kind: name for kind, name in (asked | {"split": columns.split}).items() if name}
    for kind, name in found.items():
        if name not in names:
            raise SettingError(f"--{kind} is {name!r}: {_unknown(name, names, file)}")
    if "id" not in found and "id" in names and "id" not in found.values():
        found["id"] = "id"
    return found


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
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"{file} has no such column; {did_you_mean(name, names)}it has {listed}"
