"""A table of edges: both ends by node id."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pace.errors import GraphError
from pace.graph import Graph
from pace.tables.problems import Problems
from pace.tables.table import Table, TableFile, check_option, data_columns, open_table, read_table

ENDS = (  # names of the columns with both ends, in any case
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("von", "nach"),
    ("quelle", "ziel"),
)


@dataclass(frozen=True)
class NodeIds:
    """The nodes that edges may name."""

    numbers: Mapping[str, int]  # of each id
    file: TableFile
    column: str | None  # with the ids; None if rows are numbered


def read_edges(
    path: Path,
    nodes: NodeIds,
    problems: Problems,
    notes: list[str],
    *,
    strangers: str = "refuse",
    weight: str | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Both ends of every edge, (2, edges), and the weights, if their column is named.

    The ends are in the columns source and target (or from and to), else in the first two.
    `strangers="drop"` leaves out edges to nodes that are not in the table.
    """
    file = open_table(path)
    ends = _find_columns(file, nodes, notes, weight)
    table = read_table(file, problems, text=ends, numbers=[weight] if weight else [])
    notes += table.notes
    weights = None if weight is None else _read_weights(table, weight)
    edges = torch.tensor(
        [[nodes.numbers.get(name, -1) for name in table.text[end]] for end in ends],
        dtype=torch.int64,
    )
    strange = (edges < 0).any(0)
    count = int(strange.sum())
    if 2 * count > len(strange):
        mentioned = {name for end in ends for name in table.text[end] if name}
        if hint := _suggest_id(nodes, mentioned) or _respelt(nodes, mentioned):
            raise GraphError(f"{path.name} {hint}")
    if strangers == "drop":
        if count:
            notes.append(f"dropped: edges to nodes that are not in the table, {count:,}")
        return edges[:, ~strange], None if weights is None else weights[~strange]
    for index in strange.nonzero().flatten().tolist():
        for end in ends:
            name = table.text[end][index]
            if name not in nodes.numbers:
                wrong = f"{end!r} is {name!r}, not the id of any node"
                kind = f"{end!r} is not the id of any node (--strangers drop leaves such edges out)"
                if not name:
                    wrong = kind = f"{end!r} is empty"
                table.refuse(index, wrong, kind=kind, cell=name)
    return edges, weights


def _find_columns(
    file: TableFile, nodes: NodeIds, notes: list[str], weight: str | None
) -> list[str]:
    """The columns with both ends: by their usual names, else the first two."""
    columns = data_columns(file, notes)
    if len(columns) < 2:
        single = f"the single column {columns[0]!r}" if columns else "no column with a name"
        raise GraphError(f"{file.name} has {single}, expected two, such as source,target")
    lower = {name.lower(): name for name in reversed(columns)}
    named = ([lower[end] for end in pair] for pair in ENDS if set(pair) <= set(lower))
    ends = next(named, columns[:2])
    if all(name in nodes.numbers for name in ends):
        raise GraphError(
            f"{file.name} begins with {','.join(ends)}, which are node ids: give it a first row "
            "that names its columns, such as source,target"
        )
    if weight is not None:
        check_option("weight", weight, columns, file.name)
    if ignored := [name for name in columns if name not in (*ends, weight)]:
        same = "" if weight else "; all edges weigh the same (--weight COLUMN reads weights)"
        notes.append(f"{file.name}: not used are {', '.join(ignored)}{same}")
    return ends


def _read_weights(table: Table, column: str) -> Tensor:
    """Weights, finite and above 0."""
    numbers = table.numbers[column]
    weights = torch.from_numpy(numbers.values)
    wrong = ~(torch.isfinite(weights) & (weights > 0))
    for index in wrong.nonzero().flatten().tolist():
        cell = numbers.text.get(index, f"{float(weights[index]):g}")
        table.refuse_cell(index, column, cell, "a number above 0")
    return weights


def _suggest_id(nodes: NodeIds, mentioned: set[str]) -> str | None:
    """A sentence that names the column in which most of the edges' ends are, each once."""
    names = [name for name in nodes.file.columns if name]
    table = read_table(nodes.file, Problems(), text=names)
    for name, cells in table.text.items():
        values = set(cells)
        common = mentioned & values
        if name != nodes.column and len(values) == len(cells) and 2 * len(common) > len(mentioned):
            return (
                f"names nodes by values such as {min(common)!r}, which are in column {name!r} of "
                f"{table.file}, a different one in every row: give --id {name}"
            )
    return None


def _respelt(nodes: NodeIds, mentioned: set[str]) -> str | None:
    """A sentence about ids that are numbers in both tables, once as a spreadsheet rewrote them."""
    ids = {number: name for name in nodes.numbers if (number := _id_number(name)) is not None}
    pairs = {end: ids[number] for end in mentioned if (number := _id_number(end)) in ids}
    if 2 * len(pairs) <= len(mentioned):
        return None
    end = min(pairs)
    return (
        f"names a node {end!r} that the table of nodes calls {pairs[end]!r}: a spreadsheet rewrites "
        "ids that look like numbers; export both with the ids as text"
    )


def _id_number(name: str) -> int | None:
    whole = re.fullmatch(r"(\d{1,18})(?:[.,]0+)?", name)
    return int(whole[1]) if whole else None


def note_merged(edges: Tensor, graph: Graph, notes: list[str]) -> None:
    """Note what became of edges that the graph does not have."""
    loops = int((edges[0] == edges[1]).sum())
    merged = edges.shape[1] - loops - graph.edges.shape[1] // (1 if graph.directed else 2)
    if loops:
        notes.append(f"dropped: edges from a node to itself, {loops}")
    if merged:
        notes.append(f"merged: edges given more than once or in both directions, {merged}")
