"""A site larger than memory through all its commands: seconds, peak memory and bytes on the disk.

    python -m benchmarks.larger 20000000 --memory 5 --folder /big/disk
    python -m benchmarks.larger --picture graphs.jsonl bench/bench.json size.png

The second draws what several sizes printed, beside the rows of `python -m benchmarks --only rows`.

Tables are made in a stream, from a seed: a class a node, features of that class and noise, half of the
edges within a class, all ends anywhere in the graph, which is the worst order for a cache. A second
site, small, makes it a federation. Each command is a process of its own.
"""

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


def site_steps(nodes: int, folder: Path, memory: float, method: str) -> Iterator[dict[str, Any]]:
    """Every step of a site, in order."""

    def took(step: str, site: Path, *words: object) -> dict[str, Any]:
        return {"step": step, "site": site.name, **child("-m", "pace", *words)[0]}

    small, home, job_file = folder / "small", folder / "large", folder / "job.pace"
    write_tables(home, nodes)
    write_tables(small, SMALL)
    yield {"step": "tables", "site": home.name, "bytes": size_of(home)}
    classes = tuple(f"c{label}" for label in range(CLASSES))
    features = tuple(f"f{column}" for column in range(FEATURES))
    names: dict[str, Any] = {"classes": classes, "features": features}
    gcn = GCN((FEATURES, HIDDEN, CLASSES))
    job = Job("large", gcn, method, participants=(home.name, small.name), minimum=2, **names)
    write_job(job_file, job)
    said = ("--classes", ",".join(classes), "--label", "kind", "--split", "fold")
    for site in (small, home):
        graph, tables = site / "mine.graph", [site / "nodes.parquet", site / "edges.parquet"]
        named = ("--nodes", tables[0], "--edges", tables[1], "--memory", memory)
        found = took("import", site, "graph", "import", *named, *said, "--out", graph)
        yield found | {"bytes": size_of(graph)}
        for path in tables:
            path.unlink()  # room on the disk for what is computed
        files = ("--keep", site / "mine.local", "--upload", folder / "inbox" / f"{site.name}.up")
        found = took("fit", site, "client", "fit", job_file, graph, *files, "--yes")
        yield found | {"bytes": size_of(graph)}
    outbox, kept, model = folder / "outbox", home / "mine.local", home / "mine.model"
    yield took("merge", home, "server", "merge", job_file, folder / "inbox", "--out", outbox)
    adopt = ("--kept", kept, "--return", outbox / "large.down", "--out", model)
    yield took("adopt", home, "client", "adopt", job_file, graph, *adopt)
    out = home / "predictions.parquet"
    yield took("predict", home, "client", "predict", model, graph, "--out", out)


def draw(graphs: Path, rows: Path, out: Path) -> None:
    """Seconds and memory by nodes and rows, beside scikit-learn's; prints them, with exponents."""
    import matplotlib
    import pandas

    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps = pandas.read_json(graphs, lines=True)
    steps = steps[steps["step"].isin(STEPS) & (steps["site"] != "small")]
    streamed = pandas.DataFrame(json.loads(rows.read_text())["rows"]).set_index("rows")
    tables = {}
    for unit, of_steps, of_rows in (
        ("seconds of the processor", "cpu_seconds", "seconds"),
        ("MB at most", "peak_mb", "peak_mb"),
    ):
        by_step = steps.pivot(index="nodes", columns="step", values=of_steps)
        names = {of_rows: "PACE, two maps of 128 columns"}
        names |= {f"{peer}_{of_rows}": f"scikit-learn: {peer}, one" for peer in ("ridge", "sgd")}
        tables[f"graph in a folder: {unit}"] = by_step[list(STEPS)]
        tables[f"rows in a stream: {unit}"] = streamed[list(names)].rename(columns=names)
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7.5))
    for axis, (title, table) in zip(axes.T.flat, tables.items(), strict=True):
        lines = {name: table[name].dropna() for name in table}
        growth = {
            name: round(float(np.polyfit(np.log(line.index), np.log(line), 1)[0]), 2)
            for name, line in lines.items()
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
    for point in site_steps(given.nodes, given.folder, given.memory, given.method):
        print(json.dumps({"nodes": given.nodes, **point}), flush=True)
    shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
