"""Tables larger than memory, block by block, into a graph's folder; see `pace.models.mapped`.

What a cell means is decided as for other tables, in each block. What needs the whole table to be known
has to be said: classes, and by a codebook how words and dates become numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pace.datasets import (
    FOLDER,
    About,
    Edges,
    Names,
    Nodes,
    read_folder,
    width_of,
    write_folder,
)
from pace.errors import GraphError, SettingError
from pace.graph import MASKS
from pace.io import plain_record
from pace.tables.cells import MISSING
from pace.tables.codebook import BOTH, Codebook
from pace.tables.features import Change, encode_columns, infer_columns
from pace.tables.graph_parts import find_ends, read_labels, read_masks
from pace.tables.importing import (
    Columns,
    check_settings,
    read_as,
    shares,
    special_columns,
)
from pace.tables.problems import Problems
from pace.tables.table import (
    ArrowBlock,
    ParquetFile,
    Table,
    arrow_blocks,
    open_table,
)

SPREAD = 4  # times the number of nodes: ids below it are looked up in a list
ROOM_PER_NODE = 160  # bytes: ids and where they are found, labels, split, degrees


class StreamedTables:
    """Two tables that become a folder."""

    def __init__(self, nodes: Path, edges: Path, columns: Columns, codebook: Codebook | None):
        self.nodes, self.edges, self.codebook = nodes, edges, codebook
        for option in ("client", "decimal", "known", "mapping"):
            if getattr(columns, option) is not None:
                name = {"known": "with"}.get(option, option)
                raise SettingError(f"--{name} does not go with --memory: leave it out")
        self.classes = check_settings(columns, codebook)
        if columns.label and not self.classes:
            raise SettingError("--memory needs all classes beforehand: give --classes, or --job")
        self.problems = Problems()
        self.columns, self.ratios = shares(columns)
        self.file = open_table(nodes)
        self.special = special_columns(self.columns, codebook, self.file, self.problems.notes)
        self.weight = columns.weight or (codebook and codebook.weight) or None
        self.directed = (columns.directions or (codebook.directions if codebook else BOTH)) != BOTH
        self.features = list(codebook.columns) if codebook else []
        self.text, self.numbers = read_as(
            self.file, self.columns, codebook, self.special, self.problems
        )
        self.text = [name for name in self.text if name != self.special.get("id")]
        self.ids = self._ids()
        first = self._table(next(arrow_blocks(nodes)), 0)
        if codebook is None:
            self.features = infer_columns(first)
            if words := [column.name for column in self.features if column.kind != "number"]:
                raise SettingError(
                    f"column {words[0]!r} holds no numbers: --memory turns words and dates into "
                    "features by a codebook alone, with --job"
                )
        self.problems.stop()
        self.ends = find_ends(open_table(edges), {}, self.problems, self.weight)

    def _table(self, block: Any, before: int) -> Table:
        file = ArrowBlock(self.nodes, block, before)
        rows, text, numbers = file.read(self.text, self.numbers, self.problems)
        return Table(file, rows, text, numbers, self.problems)

    def _ids(self) -> Any:
        """What nodes are called, as an Arrow array; of whole numbers, whole numbers."""
        import pyarrow
        from pyarrow import compute

        column = self.special.get("id")
        if column is None:
            count = sum(len(block) for block in arrow_blocks(self.nodes, self.file.columns[:1]))
            return pyarrow.array(np.arange(count))
        blocks = [_names(block.column(column)) for block in arrow_blocks(self.nodes, [column])]
        ids = pyarrow.chunked_array(blocks).combine_chunks()
        if ids.null_count:
            raise GraphError(f"{self.nodes.name}: an id ({column!r}) is empty")
        ordered = ids.take(
            compute.array_sort_indices(ids)
        )  # counting them takes ten times the room
        twice = ordered[1:].filter(compute.equal(ordered[1:], ordered[:-1]))
        if len(twice):
            raise GraphError(f"{self.nodes.name}: the id {twice[0].as_py()!r} stands in two rows")
        return ids

    def node_blocks(self) -> Iterator[Nodes]:
        """Features, labels and split of the nodes, in order."""
        before, missing = 0, self.codebook.missing if self.codebook else MISSING
        for block in arrow_blocks(self.nodes):
            table = self._table(block, before)
            changes: list[Change] | None = None if self.codebook is None else []
            x = encode_columns(table, self.features, missing, changes)
            y, _ = read_labels(table, self.special.get("label"), self.classes, missing)
            masks = read_masks(table, self.special.get("split"), y)
            self.problems.stop()
            split = torch.zeros(len(y), dtype=torch.uint8)
            for number, mask in enumerate(MASKS, start=1):
                if mask in masks:
                    split[masks[mask]] = number
            yield x, y, split
            before += len(block)

    def edge_blocks(self) -> Iterator[Edges]:
        """Both ends of the edges as numbers of nodes, and their weights."""
        wanted, dropped = [*self.ends, *([self.weight] if self.weight else [])], 0
        for block in arrow_blocks(self.edges, wanted):
            ends = torch.stack([self._numbered(block.column(end)) for end in self.ends])
            known = (ends >= 0).all(0)
            if not known.all() and self.columns.strangers == "refuse":
                row = int((~known).nonzero()[0])
                found = [block.column(end)[row].as_py() for end in self.ends]
                raise GraphError(
                    f"{self.edges.name}: the edge {found[0]!r} to {found[1]!r} leads to a node that is "
                    "not in the table (--strangers drop leaves such edges out)"
                )
            dropped += int((~known).sum())
            weights = None
            if self.weight:
                column = block.column(self.weight).combine_chunks()
                weights = torch.tensor(np.array(column, dtype=np.float32))
                if not bool((torch.isfinite(weights) & (weights > 0)).all()):
                    raise GraphError(
                        f"{self.edges.name}: a weight ({self.weight!r}) is not a number above 0"
                    )
            yield ends[:, known], None if weights is None else weights[known]
        if dropped:
            left_out = f"dropped: edges to nodes that are not in the table, {dropped:,}"
            self.problems.notes.append(left_out)

    def _numbered(self, names: Any) -> Tensor:
        """The number of each named node, -1 where there is none."""
        from pyarrow import compute

        names, ids = _names(names), self.ids
        if str(names.type) != str(ids.type):
            names, ids = names.cast("string"), ids.cast("string")
        if str(names.type) != "int64" or self.numbers_of is None:
            found = compute.index_in(names, value_set=ids, skip_nulls=True).fill_null(-1)
            return torch.from_numpy(np.array(found)).long()
        wanted = torch.from_numpy(np.array(names.fill_null(-1)))
        inside = (wanted >= 0) & (wanted < len(self.numbers_of))
        return torch.where(inside, self.numbers_of[torch.where(inside, wanted, 0)], -1)

    @cached_property
    def numbers_of(self) -> Tensor | None:
        """By id, the number of its node, where ids are whole numbers that lie close together."""
        if str(self.ids.type) != "int64":
            return None
        ids = torch.from_numpy(np.array(self.ids))
        if int(ids.min()) < 0 or int(ids.max()) >= SPREAD * len(ids):
            return None
        return torch.full((int(ids.max()) + 1,), -1).scatter_(0, ids, torch.arange(len(ids)))

    def write(self, out: Path, memory: int) -> dict[str, Any]:
        """The folder, with so many bytes of memory; its sizes and what the user should know."""
        import pyarrow
        from pyarrow import parquet

        names = tuple(feature for column in self.features for feature in column.features)
        nodes, size = len(self.ids), self.edges.stat().st_size
        if memory < (least := nodes * (ROOM_PER_NODE + 16)):
            raise SettingError(
                f"{nodes:,} nodes take at least {least / 1e9:.1f} GB whatever is streamed, and --memory "
                f"allows {memory / 1e9:.1f}: allow more, or divide the graph"
            )
        edges = size // 4  # a line of CSV has no fewer bytes
        if isinstance(open_table(self.edges), ParquetFile):
            edges = parquet.read_metadata(self.edges).num_rows
        about = About(
            format=FOLDER,
            name=out.stem,
            nodes=nodes,
            entries=edges * (1 if self.directed else 2),
            features=len(names),
            classes=len(self.classes),
            ratios=self.ratios,
            names=Names(self.classes, names),
            width=width_of(nodes, len(names), memory),
            directed=self.directed,
            weighted=self.weight is not None,
            memory=memory,
        )
        told = [plain_record(about), self.special, self.ends, self.weight, self.columns.strangers]
        told += [
            (str(path.resolve()), path.stat().st_mtime_ns) for path in (self.nodes, self.edges)
        ]
        origin = hashlib.sha256(repr(told).encode()).hexdigest()
        ids = pyarrow.table({"id": self.ids})
        write_folder(
            out,
            about,
            origin,
            self.node_blocks,
            self.edge_blocks,
            finish=lambda folder: parquet.write_table(ids, folder / "ids.parquet"),
        )
        dataset, about = read_folder(out)
        sizes = {"nodes": nodes, "edges": about.entries // (1 if self.directed else 2)}
        split = "of the table" if dataset.has_split else "drawn when it is used"
        more = {"features": about.features, "classes": about.classes, "split": split}
        return {**sizes, **more, "memory": memory, "notes": self.problems.notes}


def _names(column: Any) -> Any:
    """Ids as they are compared: whole numbers as such, everything else as text."""
    import pyarrow

    array = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    whole = pyarrow.types.is_integer(array.type)
    return array.cast(pyarrow.int64() if whole else pyarrow.string())
