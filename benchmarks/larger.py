"""A site larger than memory through all its commands: seconds, peak memory and bytes on the disk.

    python -m benchmarks.larger 20000000 --edges 200000000 --features 100 --memory 5 --folder /big/disk
    python -m benchmarks.larger --picture graphs.jsonl rows.jsonl large.png

The second draws what several sizes printed, beside points of `benchmarks.rows`.

Tables are made in a stream, from a seed: a class a node, features of that class and noise, half of the
edges within a class, all ends anywhere in the graph, which is the worst order for a cache. A second
site, small, makes it a federation. Each command is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

from pace.graph import MASKS
from pace.jobs import Job, write_job
from pace.models import GCN

CLASSES, HIDDEN, BLOCK = 40, 64, 2**18
EIGHTHS, LARGEST = 8, 2.0  # features are multiples of 1/8 up to 2: small files, exact numbers
SMALL = 20_000
STEPS = ("import", "fit", "adopt", "predict")


def node_blocks(nodes: int, features: int) -> Iterator[Any]:
    """Features as numbers of a list of steps, which Parquet stores as such."""
    random, most = np.random.default_rng(0), round(EIGHTHS * LARGEST)
    directions = np.round(2 * random.normal(size=(features, CLASSES))).astype(np.int16)
    noise = np.round(EIGHTHS * random.normal(size=(features, BLOCK))).astype(np.int16)
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


def edge_blocks(nodes: int, edges: int) -> Iterator[Any]:
    random = np.random.default_rng(1)
    for first in range(0, edges, BLOCK):
        count = min(BLOCK, edges - first)
        source, target = random.integers(nodes, size=(2, count))
        alike = random.random(count) < 0.5
        same = target // CLASSES * CLASSES + source % CLASSES
        target = np.where(alike & (same < nodes), same, target)
        yield pyarrow.table({"source": source.astype(np.int32), "target": target.astype(np.int32)})


def write_tables(folder: Path, nodes: int, edges: int, features: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_blocks(folder / "nodes.parquet", node_blocks(nodes, features))
    write_blocks(folder / "edges.parquet", edge_blocks(nodes, edges))


def write_blocks(path: Path, blocks: Iterator[Any]) -> None:
    """A Parquet file of Arrow tables; columns that are dictionaries stay so."""
    first = next(blocks)
    short = [field.name for field in first.schema if str(field.type).startswith("dictionary")]
    how = {"use_dictionary": short, "compression": "none", "store_schema": False}
    with parquet.ParquetWriter(path, first.schema, **how) as writer:
        for block in chain([first], blocks):
            writer.write_table(block)


def measured(*words: object) -> dict[str, Any]:
    """A command's seconds on the clock and of the processor, and the most memory it had.

    `anonymous_mb` leaves out pages of mapped files, which the system takes back when it needs them.
    """
    began, most = time.perf_counter(), {"VmHWM": 0, "RssAnon": 0}
    command = [sys.executable, "-m", "pace", *map(str, words)]
    process = subprocess.Popen(command, stdout=sys.stderr)
    done = 0
    while not done:
        with suppress(OSError, KeyError):  # it has ended
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            kilobytes = {line.split(":")[0]: line.split()[1] for line in lines if "kB" in line}
            most = {name: max(value, int(kilobytes[name])) for name, value in most.items()}
        time.sleep(0.05)
        done, status, usage = os.wait4(process.pid, os.WNOHANG)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mb": most["VmHWM"] // 1024,
        "anonymous_mb": most["RssAnon"] // 1024,
    }


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def one(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every step of a site, in order."""
    folder, home = given.folder, given.folder / "large"
    if not (folder / "made").exists():
        write_tables(home, given.nodes, given.edges, given.features)
        write_tables(folder / "small", SMALL, 10 * SMALL, given.features)
        (folder / "made").touch()
    job = Job(
        "large",
        participants=("large", "small"),
        minimum=2,
        method=given.method,
        epochs=given.epochs,
        classes=tuple(f"c{label}" for label in range(CLASSES)),
        features=tuple(f"f{i}" for i in range(given.features)),
        model=GCN((given.features, HIDDEN, CLASSES)),
    )
    if not (folder / "job.pace").exists():
        write_job(folder / "job.pace", job)
    yield {"step": "tables", "bytes": size_of(home)}
    said = ("--classes", ",".join(job.classes), "--label", "kind", "--split", "fold")
    for site in (folder / "small", home):
        graph, tables = site / "mine.graph", [site / "nodes.parquet", site / "edges.parquet"]
        if not graph.exists():
            named = ("--nodes", tables[0], "--edges", tables[1], "--memory", given.memory)
            found = measured("graph", "import", *named, *said, "--out", graph)
            yield {"step": "import", "site": site.name, **found, "bytes": size_of(graph)}
            for path in tables:
                path.unlink()  # room on the disk for what is computed
        files = ("--keep", site / "mine.local", "--upload", folder / "inbox" / f"{site.name}.up")
        found = measured("client", "fit", folder / "job.pace", graph, *files, "--yes")
        yield {"step": "fit", "site": site.name, **found, "bytes": size_of(graph)}
    outbox, kept, model = folder / "outbox", home / "mine.local", home / "mine.model"
    merge = ("server", "merge", folder / "job.pace", folder / "inbox", "--out", outbox)
    yield {"step": "merge", **measured(*merge)}
    adopt = ("--kept", kept, "--return", outbox / "large.down", "--out", model)
    yield {"step": "adopt", **measured("client", "adopt", folder / "job.pace", graph, *adopt)}
    out = home / "predictions.parquet"
    yield {"step": "predict", **measured("client", "predict", model, graph, "--out", out)}


def draw(graphs: Path, rows: Path, out: Path) -> None:
    """Seconds and memory by nodes and rows, beside scikit-learn's; prints them, with exponents."""
    import matplotlib
    import pandas

    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps, streamed = (pandas.read_json(path, lines=True) for path in (graphs, rows))
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


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int, nargs="?")
    parser.add_argument("--picture", type=Path, nargs=3, metavar=("GRAPHS", "ROWS", "OUT"))
    parser.add_argument("--edges", type=int)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--memory", type=float, default=5.0, help="GB")
    parser.add_argument("--method", default="pace-ridge")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--keep", action="store_true", help="leave the files there")
    given = parser.parse_args(words)
    if given.picture:
        draw(*given.picture)
        return
    given.edges = given.edges or 10 * given.nodes
    facts = {"nodes": given.nodes, "edges": given.edges, "features": given.features}
    for point in one(given):
        print(json.dumps(facts | {"site": "large"} | point), flush=True)
    if not given.keep:
        shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
