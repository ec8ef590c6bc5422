"""Tables larger than memory, block by block, into a graph's folder; see `pace.models.mapped`.

What a cell means is decided as for other tables, in each block. What needs the whole table to be known
has to be said: classes, and by a codebook how words and dates become numbers.
"""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pace.datasets import Names, folder
from pace.errors import GraphError, SettingError
from pace.io import plain_record
from pace.tables.cells import Numbers, parse_cells
from pace.tables.codebook import Codebook
from pace.tables.features import infer_columns
from pace.tables.importing import Columns, Plan, find_ends
from pace.tables.table import Table, arrow, arrow_blocks, open_table, read_arrow

SPREAD = 4  # times the number of nodes: ids below it are looked up in a list, in one look
ROOM_PER_NODE = 160  # bytes: ids and where they are found, labels, split, degrees


class StreamedTables:
    """Two tables that become a folder."""

    def __init__(self, nodes: Path, edges: Path, columns: Columns, codebook: Codebook | None):
        self.nodes, self.edges = nodes, edges
        for option in ("client", "decimal", "known", "mapping"):
            if getattr(columns, option) is not None:
                name = {"known": "with"}.get(option, option)
                raise SettingError(f"--{name} does not go with --memory: leave it out")
        self.plan = plan = Plan(nodes, columns, codebook)
        if plan.columns.label and not plan.classes:
            raise SettingError("--memory needs all classes beforehand: give --classes, or --job")
        plan.text = [name for name in plan.text if name != plan.columns.id]
        if next(arrow_blocks(nodes), None) is None:
            raise GraphError(f"{nodes.name} has no rows below its header: a graph needs nodes")
        self.ids = self._ids()
        if codebook is None:
            plan.features = infer_columns(self._table(next(arrow_blocks(nodes)), 0))
            if words := [column.name for column in plan.features if column.kind != "number"]:
                wrong = f"column {words[0]!r} holds no numbers"
                raise SettingError(f"{wrong}: --memory reads words and dates with --job alone")
        plan.problems.stop()
        self.ends = find_ends(open_table(edges), plan.problems, plan.columns.weight)
        ends = next(arrow_blocks(edges, self.ends), None)
        named = [self.ids, *(map(_names, ends.columns) if ends else ())]
        self.words = any(str(names.type) != "int64" for names in named)
        self.lookup = self._lookup()

    def _table(self, block: Any, before: int) -> Table:
        plan, file = self.plan, self.nodes.name
        rows, text = read_arrow(block, [*plan.text, *plan.numbers], file, before)
        numbers = {name: Numbers(parse_cells(text[name])) for name in plan.numbers}
        return Table(file, rows, text, numbers, plan.problems)

    def _ids(self) -> Any:
        """What nodes are called, as an Arrow array; of whole numbers, whole numbers."""
        column = self.plan.columns.id
        blocks = arrow_blocks(self.nodes, [column or self.plan.file.columns[0]])
        if column is None:
            return arrow().array(np.arange(sum(map(len, blocks))))
        ids = arrow().chunked_array([_names(block[0]) for block in blocks]).combine_chunks()
        if ids.null_count:
            raise GraphError(f"{self.nodes.name}: an id ({column!r}) is empty")
        return ids

    def _lookup(self) -> Callable[[Any], Any]:
        """From ids, as `_keys`, to the numbers of their nodes, -1 where there is none."""
        import pandas

        keys = _keys(self.ids, self.words)
        index = pandas.Index(keys)
        if not index.is_unique:
            key = keys[index.duplicated()][0]
            twice = {self.ids[row].as_py() for row in np.flatnonzero(keys == key).tolist()}
            name = " and ".join(map(repr, twice))  # two where words have one hash
            raise GraphError(f"{self.nodes.name}: the id {name} stands in two rows")
        least, most = keys.min(initial=0), keys.max(initial=0)
        if self.words or least < 0 or most >= SPREAD * len(keys):
            return index.get_indexer  # type: ignore[no-any-return]
        table = np.full(most + 3, -1, np.int32)
        table[keys + 1] = np.arange(len(keys))
        return lambda wanted: table[wanted.clip(-1, most + 1) + 1]

    def node_blocks(self) -> Iterator[folder.Nodes]:
        """Features, labels and split of the nodes, in order."""
        before, column, empty = 0, self.plan.columns.split, True
        for block in arrow_blocks(self.nodes):
            x, y, split = self.plan.encode(self._table(block, before), [])
            self.plan.problems.stop()
            yield x, y, split
            before, empty = before + len(block), empty and not split.any()
        if column and empty:
            raise GraphError(f"{self.nodes.name}: split column {column!r} is empty in every row")

    def edge_blocks(self) -> Iterator[folder.Edges]:
        """Both ends of the edges as numbers of nodes, and their weights."""
        weight, dropped = self.plan.columns.weight, 0
        for block in arrow_blocks(self.edges, [*self.ends, *filter(None, [weight])]):
            ends = torch.stack([self._numbered(block.column(end)) for end in self.ends])
            known = ends.amin(0) >= 0
            if not known.all() and self.plan.columns.strangers == "refuse":
                row = int((~known).nonzero()[0])
                start, stop = (block.column(end)[row].as_py() for end in self.ends)
                wrong = f"the edge {start!r} to {stop!r} leads to a node that is not in the table"
                raise GraphError(f"{self.edges.name}: {wrong} (--strangers drop leaves it out)")
            dropped += int((~known).sum())
            weights = None
            if weight:
                column = block.column(weight).combine_chunks()
                weights = torch.tensor(np.array(column, dtype=np.float32))
                if not bool((torch.isfinite(weights) & (weights > 0)).all()):
                    wrong = f"a weight ({weight!r}) is not a number above 0"
                    raise GraphError(f"{self.edges.name}: {wrong}")
            yield ends[:, known], None if weights is None else weights[known]
        if dropped:
            left_out = f"dropped: edges to nodes that are not in the table, {dropped:,}"
            self.plan.problems.notes.append(left_out)

    def _numbered(self, column: Any) -> Tensor:
        """The number of each named node, -1 where there is none."""
        names = _names(column)
        numbers = self.lookup(_keys(names, self.words))
        if names.null_count:
            numbers[np.asarray(names.is_null())] = -1
        return torch.from_numpy(numbers).long()

    def write(self, out: Path, memory: int) -> dict[str, Any]:
        """The folder, with so many bytes of memory; its sizes and what the user should know."""
        plan, ids, nodes = self.plan, arrow().table({"id": self.ids}), len(self.ids)
        if memory < (least := nodes * (ROOM_PER_NODE + 16)):
            takes = f"{nodes:,} nodes take at least {least / 1e9:.1f} GB whatever is streamed"
            raise SettingError(f"{takes}, and --memory allows {memory / 1e9:.1f}: allow more")
        about = folder.About(
            format=folder.FOLDER,
            name=out.stem,
            nodes=nodes,
            features=len(plan.names),
            classes=len(plan.classes),
            ratios=plan.ratios,
            names=Names(plan.classes, plan.names),
            width=folder.width_of(nodes, len(plan.names), memory),
            directed=plan.directed,
            weighted=plan.columns.weight is not None,
            memory=memory,
        )
        inputs = [plain_record(about), plain_record(plan.columns), self.ends]
        inputs += [(path.resolve(), path.stat().st_mtime_ns) for path in (self.nodes, self.edges)]
        about = folder.write_folder(
            out,
            about,
            hashlib.sha256(repr(inputs).encode()).hexdigest(),
            self.node_blocks,
            self.edge_blocks,
            finish=lambda staged: arrow().parquet.write_table(ids, staged / "ids.parquet"),
        )
        return {
            "nodes": nodes,
            "edges": about.entries // (1 if plan.directed else 2),
            "features": about.features,
            "classes": about.classes,
            "split": "of the table" if plan.columns.split else "drawn when it is used",
            "memory": memory,
            "notes": plan.problems.notes,
        }


def _names(column: Any) -> Any:
    """Ids as they are compared: whole numbers as such, everything else as text."""
    integers = arrow().types.is_integer(column.type)
    return column.combine_chunks().cast("int64" if integers else "string")


def _keys(names: Any, words: bool) -> Any:
    """64 bits for each name: a whole number itself, a word's hash."""
    from pandas.util import hash_array

    if not words:
        return np.asarray(names.fill_null(0))
    cells = names.cast("string").fill_null("").to_numpy(zero_copy_only=False)
    return hash_array(cells, categorize=False).view(np.int64)
