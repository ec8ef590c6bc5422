"""A site larger than memory through all its commands: seconds, peak memory and bytes on the disk.

    python -m benchmarks.larger 20000000 --memory 5 --folder /big/disk

Tables are made in a stream, from a seed: a class a node, features of that class and noise, half of the
edges within a class, all ends anywhere in the graph, which is the worst order for a cache. A second
site, small, makes it a federation. Each command is a process of its own.
"""

import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import pyarrow
import typer
from pyarrow import parquet

from benchmarks import rows
from benchmarks.clock import Point, child, command
from benchmarks.rows import CLASSES
from pace.graph import MASKS

FEATURES, BLOCK = 100, 2**17


def node_blocks(nodes: int) -> Iterator[pd.DataFrame]:
    """Features are multiples of 1/8 up to 2: small files, exact numbers."""
    random, number = np.random.default_rng(0), 0
    for label, x in rows.blocks(nodes, FEATURES, BLOCK):
        eighths = (8 * x / 3).round().clamp(-16, 16) / 8
        folds = random.choice(MASKS, len(x), p=(0.2, 0.4, 0.4))
        ids = np.arange(number, number := number + len(x), dtype=np.int32)
        block = pd.DataFrame(eighths.numpy()).add_prefix("f")
        yield block.assign(id=ids, kind=[f"c{kind}" for kind in label.tolist()], fold=folds)


def edge_blocks(nodes: int) -> Iterator[pd.DataFrame]:
    random, edges = np.random.default_rng(1), 10 * nodes
    for first in range(0, edges, BLOCK):
        count = min(BLOCK, edges - first)
        source, target = random.integers(nodes, size=(2, count), dtype=np.int32)
        alike = random.random(count) < 0.5
        same = target // CLASSES * CLASSES + source % CLASSES
        target = np.where(alike & (same < nodes), same, target)
        yield pd.DataFrame({"source": source, "target": target})


def write_blocks(path: Path, blocks: Iterator[pd.DataFrame]) -> None:
    """A Parquet file, block by block."""
    tables = (pyarrow.Table.from_pandas(block, preserve_index=False) for block in blocks)
    first = next(tables)
    with parquet.ParquetWriter(path, first.schema, compression="none") as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def main(
    nodes: int,
    folder: Annotated[Path, typer.Option()],
    memory: float = 5.0,
    method: str = "pace-ridge",
) -> Iterator[Point]:
    """Print a JSON object for each step of a site; FOLDER is made, and removed at the end."""

    def took(step: str, site: str, words: str) -> dict[str, str | float]:
        with chdir(folder / site):
            taken, _ = child("-m", "pace", *words.split())
        return {"nodes": nodes, "step": step, "site": site, **taken}

    classes = ",".join(f"c{label}" for label in range(CLASSES))
    columns = f"--classes {classes} --label kind --split fold"
    for site, count, how in (("small", 20_000, ""), ("large", nodes, f"--memory {memory}")):
        (folder / site).mkdir(parents=True)
        tables = {"nodes.parquet": node_blocks(count), "edges.parquet": edge_blocks(count)}
        for name, blocks in tables.items():
            write_blocks(folder / site / name, blocks)
        named = f"--nodes nodes.parquet --edges edges.parquet {columns} {how} --out mine.graph"
        yield took("import", site, f"graph import {named}")
        for name in tables:
            (folder / site / name).unlink()  # room on the disk for what is computed
    who = f"--participant large,small --method {method}"
    yield took("new", "small", f"new ../job.pace --like mine.graph {who}")
    for site in ("small", "large"):
        sent = f"--keep mine.local --upload ../inbox/{site}.up --yes"
        taken = took("fit", site, f"client fit ../job.pace mine.graph {sent}")
        files = (path for path in (folder / site).rglob("*") if path.is_file())
        yield taken | {"bytes": sum(path.stat().st_size for path in files)}
    yield took("merge", "large", "server merge ../job.pace ../inbox --out ../outbox")
    adopt = "--kept mine.local --return ../outbox/large.down --out mine.model"
    yield took("adopt", "large", f"client adopt ../job.pace mine.graph {adopt}")
    yield took("predict", "large", "client predict mine.model mine.graph --out predictions.parquet")
    shutil.rmtree(folder)


if __name__ == "__main__":
    command(main)
