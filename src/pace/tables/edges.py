"""A table of edges: both ends by node id."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from pace.errors import GraphError, SettingError, did_you_mean
from pace.graph import Graph
from pace.tables.problems import Problems
from pace.tables.table import Table
from pace.tables.tables import header, named, read

ENDS = (  # names of the columns with both ends, in any case
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("von", "nach"),
    ("quelle", "ziel"),
)


def ends(
    path: Path,
    ids: Mapping[str, int],
    problems: Problems,
    notes: list[str],
    *,
    strangers: str = "refuse",
    weight: str | None = None,
    suggest: Callable[[set[str]], str | None] = lambda ends: None,
) -> tuple[Tensor, Tensor | None]:
    """Both ends of every edge, from the columns source and target (or from and to), else the first two.

    And the weights of the column `weight`, if one is named.

    `strangers="drop"` leaves out edges to nodes that are not in the table. `suggest` is asked for a
    sentence about ends that most edges have and no node.
    """
    names = named(path, header(path), notes)
    if len(names) < 2:
        found = f"the single column {names[0]!r}" if names else "no column with a name"
        raise GraphError(f"{path.name} has {found}, expected two, such as source,target")
    chosen = _both(names)
    if all(name in ids for name in chosen):
        raise GraphError(
            f"{path.name} begins with {','.join(chosen)}, which are node ids: give it a first row "
            "that names its columns, such as source,target"
        )
    if weight is not None and weight not in names:
        hint = did_you_mean(weight, names) or f"it has {', '.join(names[:12])}"
        raise SettingError(f"--weight is {weight!r}: {path.name} has no such column; {hint}")
    if ignored := [name for name in names if name not in (*chosen, weight)]:
        same = "" if weight else "; all edges weigh the same (--weight COLUMN reads weights)"
        notes.append(f"{path.name}: not used are {', '.join(ignored)}{same}")
    table = read(path, text=chosen, numbers=[weight] if weight else [], problems=problems)
    weights = None if weight is None else _weights(table, weight, problems)
    pairs = torch.tensor(
        [[ids.get(value, -1) for value in table.text[column]] for column in chosen],
        dtype=torch.int64,
    )
    notes += table.notes
    strange = (pairs < 0).any(0)
    if 2 * int(strange.sum()) > len(strange):
        mentioned = {value for column in chosen for value in table.text[column] if value}
        if (sentence := suggest(mentioned) or _respelt(mentioned, ids)) is not None:
            raise GraphError(f"{path.name} {sentence}")
    if strangers == "drop":
        if strange.any():
            notes.append(
                f"dropped: edges to nodes that are not in the table, {int(strange.sum()):,}"
            )
        return pairs[:, ~strange], None if weights is None else weights[~strange]
    for index in strange.nonzero().flatten().tolist():
        for column in chosen:
            value = table.text[column][index]
            if value in ids:
                continue
            wrong = f"{column!r} is {value!r}, not the id of any node"
            kind = f"{column!r} is not the id of any node (--strangers drop leaves such edges out)"
            if not value:
                wrong = kind = f"{column!r} is empty"
            problems.add(table.file, table.rows[index], wrong, kind=kind, cell=value)
    return pairs, weights


def _both(names: Sequence[str]) -> list[str]:
    """The columns with both ends: by their usual names, else the first two."""
    lower = {name.lower(): name for name in reversed(names)}
    for pair in ENDS:
        if set(pair) <= set(lower):
            return [lower[end] for end in pair]
    return list(names[:2])


def _respelt(mentioned: set[str], ids: Mapping[str, int]) -> str | None:
    """A sentence about ids that are numbers in both tables, once as a spreadsheet rewrote them."""
    numbers = {number: name for name in ids if (number := _number(name)) is not None}
    pairs = {end: numbers.get(number) for end in mentioned if (number := _number(end)) is not None}
    if 2 * sum(name is not None for name in pairs.values()) <= len(mentioned):
        return None
    end = min(end for end, name in pairs.items() if name is not None)
    return (
        f"names a node {end!r} that the table of nodes calls {pairs[end]!r}: a spreadsheet rewrites "
        "ids that look like numbers; export both with the ids as text"
    )


def _number(name: str) -> int | None:
    whole = re.fullmatch(r"(\d{1,18})(?:[.,]0+)?", name)
    return int(whole[1]) if whole else None


def _weights(table: Table, column: str, problems: Problems) -> Tensor:
    """Weights, finite and above 0."""
    numbers = table.numbers[column]
    weights = torch.from_numpy(numbers.values[:, 0])
    wrong = ~(torch.isfinite(weights) & (weights > 0))
    for index in wrong.nonzero().flatten().tolist():
        cell = numbers.text.get(index, f"{float(weights[index]):g}")
        said = f"{column!r} is {cell!r}, expected a number above 0"
        kind = f"{column!r} is not a number above 0"
        problems.add(table.file, table.rows[index], said, kind=kind, cell=cell)
    return weights


def note_merged(found: Tensor, graph: Graph, notes: list[str]) -> None:
    """Say what became of edges that the graph does not have."""
    loops = int((found[0] == found[1]).sum())
    merged = found.shape[1] - loops - graph.edges.shape[1] // (1 if graph.directed else 2)
    if loops:
        notes.append(f"dropped: edges from a node to itself, {loops}")
    if merged:
        notes.append(f"merged: edges given more than once or in both directions, {merged}")
