"""A site larger than memory through all its commands: seconds, peak memory and bytes on the disk.

    python -m benchmarks.larger 20000000 --memory 5 --folder /big/disk

Tables are made in a stream, from a seed: a class a node, features of that class and noise, half of the
edges within a class, all ends anywhere in the graph, which is the worst order for a cache. A second
site, small, makes it a federation. Each command is a process of its own.
"""

import shutil
from collections.abc import Iterator
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
DEGREE = 10  # edges a node
SMALL = 20_000


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
    random, edges = np.random.default_rng(1), DEGREE * nodes
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

    def took(step: str, site: Path, *words: object) -> dict[str, str | float]:
        taken, _ = child("-m", "pace", *words)
        return {"nodes": nodes, "step": step, "site": site.name, **taken}

    small, home, job = folder / "small", folder / "large", folder / "job.pace"
    classes = ",".join(f"c{label}" for label in range(CLASSES))
    columns = ("--classes", classes, "--label", "kind", "--split", "fold")
    for site, count, how in ((small, SMALL, ()), (home, nodes, ("--memory", memory))):
        site.mkdir(parents=True)
        graph, tables = site / "mine.graph", (site / "nodes.parquet", site / "edges.parquet")
        write_blocks(tables[0], node_blocks(count))
        write_blocks(tables[1], edge_blocks(count))
        named = ("--nodes", tables[0], "--edges", tables[1], *columns, *how)
        yield took("import", site, "graph", "import", *named, "--out", graph)
        for path in tables:
            path.unlink()  # room on the disk for what is computed
    who = ("--participant", f"{home.name},{small.name}", "--method", method)
    yield took("new", small, "new", job, "--like", small / "mine.graph", *who)
    for site in (small, home):
        graph = site / "mine.graph"
        sent = ("--keep", site / "mine.local", "--upload", folder / "inbox" / f"{site.name}.up")
        found = took("fit", site, "client", "fit", job, graph, *sent, "--yes")
        files = (path for path in site.rglob("*") if path.is_file())
        yield found | {"bytes": sum(path.stat().st_size for path in files)}
    outbox, kept, model = folder / "outbox", home / "mine.local", home / "mine.model"
    yield took("merge", home, "server", "merge", job, folder / "inbox", "--out", outbox)
    adopt = ("--kept", kept, "--return", outbox / "large.down", "--out", model)
    yield took("adopt", home, "client", "adopt", job, graph, *adopt)
    out = home / "predictions.parquet"
    yield took("predict", home, "client", "predict", model, graph, "--out", out)
    shutil.rmtree(folder)


if __name__ == "__main__":
    command(main)
