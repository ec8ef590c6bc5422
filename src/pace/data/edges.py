"""A table of edges: both ends by node id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from pace.data.problems import Problems
from pace.data.tables import header, named, read
from pace.errors import GraphError
from pace.graph import Graph


def ends(
    path: Path,
    ids: Mapping[str, int],
    problems: Problems,
    notes: list[str],
    *,
    strangers: str = "refuse",
    suggest: Callable[[set[str]], str | None] = lambda ends: None,
) -> Tensor:
    """Both ends of every edge, from the columns source and target, or else the first two.

    `strangers="drop"` leaves out edges to nodes that are not in the table. `suggest` is asked for a
    sentence about ends that most edges have and no node.
    """
    names = named(path, header(path), notes)
    if len(names) < 2:
        found = f"the single column {names[0]!r}" if names else "no column with a name"
        raise GraphError(f"{path.name} has {found}, expected two, such as source,target")
    chosen = ["source", "target"] if {"source", "target"} <= set(names) else names[:2]
    if all(name in ids for name in chosen):
        raise GraphError(
            f"{path.name} begins with {','.join(chosen)}, which are node ids: give it a first row "
            "that names its columns, such as source,target"
        )
    if ignored := [name for name in names if name not in chosen]:
        notes.append(f"{path.name}: not used are {', '.join(ignored)}; all edges weigh the same")
    table = read(path, text=chosen, problems=problems)
    pairs = torch.tensor(
        [[ids.get(value, -1) for value in table.text[column]] for column in chosen],
        dtype=torch.int64,
    )
    notes += table.notes
    strange = (pairs < 0).any(0)
    if 2 * int(strange.sum()) > len(strange):
        mentioned = {value for column in chosen for value in table.text[column] if value}
        if (sentence := suggest(mentioned)) is not None:
            raise GraphError(f"{path.name} {sentence}")
    if strangers == "drop":
        if strange.any():
            notes.append(
                f"dropped: edges to nodes that are not in the table, {int(strange.sum()):,}"
            )
        return pairs[:, ~strange]
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
    return pairs


def note_merged(found: Tensor, graph: Graph, notes: list[str]) -> None:
    """Say what became of edges that the graph does not have."""
    loops = int((found[0] == found[1]).sum())
    merged = found.shape[1] - loops - graph.edges.shape[1] // 2
    if loops:
        notes.append(f"dropped: edges from a node to itself, {loops}")
    if merged:
        notes.append(f"merged: edges given more than once or in both directions, {merged}")
