"""A site larger than memory through all its commands: seconds, peak memory and bytes on the disk.

    python -m benchmarks.larger 20000000 --memory 5 --folder /big/disk
    python -m benchmarks.larger --picture graphs.jsonl bench/bench.json size.png

The second draws what several sizes printed, beside the rows of `python -m benchmarks --only rows`.

Tables are made in a stream, from a seed: a class a node, features of that class and noise, half of the
edges within a class, all ends anywhere in the graph, which is the worst order for a cache. A second
site, small, makes it a federation. Each command is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

from benchmarks.clock import child
from pace.graph import MASKS
from pace.jobs import Job, write_job
from pace.models import GCN

FEATURES, CLASSES, HIDDEN, BLOCK = 100, 40, 64, 2**18
DEGREE = 10  # edges a node
EIGHTHS, LARGEST = 8, 2.0  # features are multiples of 1/8 up to 2: small files, exact numbers
SMALL = 20_000
STEPS = ("import", "fit", "adopt", "predict")


def node_blocks(nodes: int) -> Iterator[Any]:
    """Features as numbers of a list of steps, which Parquet stores as such."""
    random, most = np.random.default_rng(0), round(EIGHTHS * LARGEST)
    directions = np.round(2 * random.normal(size=(FEATURES, CLASSES))).astype(np.int16)
    noise = np.round(EIGHTHS * random.normal(size=(FEATURES, BLOCK))).astype(np.int16)
    values = pyarrow.array(np.arange(-most, most + 1, dtype=np.float32) / EIGHTHS)
    for first in range(0, nodes, BLOCK):
        number = np.arange(first, min(nodes, first + BLOCK))
        label = number % CLASSES
        x = directions[:, label] + np.roll(noise, random.integers(BLOCK), 1)[:, : len(number)]
        codes = (x.clip(-most, most) + most).astype(np.int8)
        columns: dict[str, Any] = {"id": number.astype(np.int32)}
        for column, row in enumerate(codes):
            columns[f"f{column}"] = pyarrow.DictionaryArray.from_arrays(row, values)
        kinds = pyarrow.array([f"c{kind}" for kind in range(CLASSES)])
        columns["kind"] = pyarrow.DictionaryArray.from_arrays(label.astype(np.int8), kinds)
        fold = random.choice(3, len(number), p=(0.2, 0.4, 0.4)).astype(np.int8)
        columns["fold"] = pyarrow.DictionaryArray.from_arrays(fold, pyarrow.array(MASKS))
        yield pyarrow.table(columns)


def edge_blocks(nodes: int) -> Iterator[Any]:
    random, edges = np.random.default_rng(1), DEGREE * nodes
    for first in range(0, edges, BLOCK):
        count = min(BLOCK, edges - first)
        source, target = random.integers(nodes, size=(2, count))
        alike = random.random(count) < 0.5
        same = target // CLASSES * CLASSES + source % CLASSES
        target = np.where(alike & (same < nodes), same, target)
        yield pyarrow.table({"source": source.astype(np.int32), "target": target.astype(np.int32)})


def write_tables(folder: Path, nodes: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_blocks(folder / "nodes.parquet", node_blocks(nodes))
    write_blocks(folder / "edges.parquet", edge_blocks(nodes))


def write_blocks(path: Path, blocks: Iterator[Any]) -> None:
    """A Parquet file of Arrow tables; columns that are dictionaries stay so."""
    first = next(blocks)
    short = [field.name for field in first.schema if str(field.type).startswith("dictionary")]
    how = {"use_dictionary": short, "compression": "none", "store_schema": False}
    with parquet.ParquetWriter(path, first.schema, **how) as writer:
        for block in chain([first], blocks):
            writer.write_table(block)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def pace(*words: object) -> dict[str, float]:
    """What a command took."""
    return child("-m", "pace", *words)[0]


def site_steps(nodes: int, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every step of a site, in order."""
    folder, home = given.folder, given.folder / "large"
    write_tables(home, nodes)
    write_tables(folder / "small", SMALL)
    job = Job(
        "large",
        participants=("large", "small"),
        minimum=2,
        method=given.method,
        classes=tuple(f"c{label}" for label in range(CLASSES)),
        features=tuple(f"f{i}" for i in range(FEATURES)),
        model=GCN((FEATURES, HIDDEN, CLASSES)),
    )
    job_file = folder / "job.pace"
    write_job(job_file, job)
    yield {"step": "tables", "bytes": size_of(home)}
    said = ("--classes", ",".join(job.classes), "--label", "kind", "--split", "fold")
    for site in (folder / "small", home):
        graph, tables = site / "mine.graph", [site / "nodes.parquet", site / "edges.parquet"]
        named = ("--nodes", tables[0], "--edges", tables[1], "--memory", given.memory)
        found = pace("graph", "import", *named, *said, "--out", graph)
        yield {"step": "import", "site": site.name, **found, "bytes": size_of(graph)}
        for path in tables:
            path.unlink()  # room on the disk for what is computed
        files = ("--keep", site / "mine.local", "--upload", folder / "inbox" / f"{site.name}.up")
        found = pace("client", "fit", job_file, graph, *files, "--yes")
        yield {"step": "fit", "site": site.name, **found, "bytes": size_of(graph)}
    outbox, kept, model = folder / "outbox", home / "mine.local", home / "mine.model"
    merge = pace("server", "merge", job_file, folder / "inbox", "--out", outbox)
    yield {"step": "merge", **merge}
    adopt = ("--kept", kept, "--return", outbox / "large.down", "--out", model)
    yield {"step": "adopt", **pace("client", "adopt", job_file, graph, *adopt)}
    out = home / "predictions.parquet"
    yield {"step": "predict", **pace("client", "predict", model, graph, "--out", out)}


def draw(graphs: Path, rows: Path, out: Path) -> None:
    """Seconds and memory by nodes and rows, beside scikit-learn's; prints them, with exponents."""
    import matplotlib
    import pandas

    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps = pandas.read_json(graphs, lines=True)
    streamed = pandas.DataFrame(json.loads(rows.read_text())["rows"])
    steps = steps[steps["step"].isin(STEPS) & (steps["site"] != "small")]
    tables = {}
    for unit, column, of_rows in (
        ("seconds of the processor", "cpu_seconds", "seconds"),
        ("MB at most", "peak_mb", "peak_mb"),
    ):
        tables[f"graph in a folder: {unit}"] = steps.pivot(
            index="nodes", columns="step", values=column
        )[list(STEPS)]
        peers = {of_rows: "PACE, two maps of 128 columns"}
        peers |= {f"{peer}_{of_rows}": f"scikit-learn: {peer}, one" for peer in ("ridge", "sgd")}
        tables[f"rows in a stream: {unit}"] = streamed.set_index("rows").rename(columns=peers)[
            list(peers.values())
        ]
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7.5))
    for axis, (title, table) in zip(axes.T.flat, tables.items(), strict=True):
        growth = {
            name: round(float(np.polyfit(np.log(line.index), np.log(line), 1)[0]), 2)
            for name, line in ((name, table[name].dropna()) for name in table)
        }
        table.plot(ax=axis, logx=True, logy=True, marker="o", title=title, grid=True)
        axis.legend([f"{name} (exponent {power})" for name, power in growth.items()])
        print(title, table.to_string(), f"exponents: {growth}", sep="\n", end="\n\n")
    figure.tight_layout()
    figure.savefig(out, dpi=70)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int, nargs="?")
    parser.add_argument("--picture", type=Path, nargs=3, metavar=("GRAPHS", "ROWS", "OUT"))
    parser.add_argument("--memory", type=float, default=5.0, help="GB")
    parser.add_argument("--method", default="pace-ridge")
    parser.add_argument("--folder", type=Path, help="to make, and to remove at the end")
    given = parser.parse_args()
    if given.picture:
        draw(*given.picture)
        return
    given.folder.mkdir(parents=True)
    for point in site_steps(given.nodes, given):
        print(json.dumps({"nodes": given.nodes, "site": "large"} | point), flush=True)
    shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
