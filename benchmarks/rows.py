"""A site as a stream of rows: seconds and memory of its fit, beside scikit-learn on the same rows.

Each size in a process of its own: `python -m benchmarks.rows pace 100000000`. Rows are made as they are
read, so that the disk is not measured; `command` in place of `pace` reads them from Parquet files.
scikit-learn's ridge takes them all at once, as many as fit; its linear model by gradient steps takes
them in a stream. Seconds are the processor's.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.clock import Point, child, peak, spent

SIZES = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
PEERS = {"ridge": 1_000_000, "sgd": 10_000_000}  # up to so many rows of 128 columns
FEATURES, CLASSES, BLOCK = 128, 40, 8192


def sweep(sizes: Sequence[int] = SIZES) -> Iterator[Point]:
    """A point for each size."""
    for rows in sizes:
        point = {"rows": float(rows)}
        for who in ("pace", *(peer for peer, most in PEERS.items() if rows <= most)):
            found = json.loads(child("-m", "benchmarks.rows", who, rows)[1])
            before = "" if who == "pace" else f"{who}_"
            point |= {f"{before}{key}": found[key] for key in ("seconds", "peak_mb")}
        yield point


def blocks(rows: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Labels and features, some at a time: a class's direction, and noise."""
    random = torch.Generator().manual_seed(0)
    directions = torch.randn(CLASSES, FEATURES, generator=random)
    noise = torch.randn(BLOCK, FEATURES, generator=random)
    for first in range(0, rows, BLOCK):
        y = torch.randint(CLASSES, (min(BLOCK, rows - first),), generator=random)
        yield y, directions[y] + 3 * noise[: len(y)].roll(first // BLOCK, 1)


def ridge(rows: int) -> None:
    from sklearn.linear_model import Ridge

    labels, features = map(torch.cat, zip(*blocks(rows), strict=True))
    targets = torch.nn.functional.one_hot(labels, CLASSES).float()
    Ridge(alpha=3.0, fit_intercept=False, solver="cholesky").fit(features.numpy(), targets.numpy())


def sgd(rows: int) -> None:
    from sklearn.linear_model import SGDClassifier

    model = SGDClassifier(loss="squared_error", eta0=1e-4, fit_intercept=False)
    for y, x in blocks(rows):
        model.partial_fit(x.numpy(), y.numpy(), classes=range(CLASSES))


def pace(rows: int) -> None:
    from pace.methods import make
    from pace.models import GCN, RowTable
    from pace.protocol import Federation, steps

    def stream() -> Iterator[RowTable]:
        for y, x in blocks(rows):
            maps = {"hop0": x, "hop2": x.roll(1, 0)}
            yield RowTable.of(y, torch.zeros_like(y), maps, FEATURES)

    federation = Federation(GCN((FEATURES, 64, CLASSES)), make("pace-ridge"))
    none = torch.zeros(0, dtype=torch.int64)
    steps.fit(RowTable.of(none, none, {}, FEATURES, stream=stream), federation)


def command(rows: int) -> dict[str, float]:
    """`pace client fit --rows` on files: one of a million rows, under as many names as are needed."""
    import pyarrow

    from benchmarks.larger import write_blocks
    from pace.jobs import Job, write_job
    from pace.models import GCN

    each = min(rows, 1_000_000)

    def tables() -> Iterator[Any]:
        for y, x in blocks(each):
            lists = pyarrow.FixedSizeListArray.from_arrays(x.numpy().reshape(-1), FEATURES)
            columns = {"id": y.numpy(), "split": ["train"] * len(y), "label": y.numpy()}
            yield pyarrow.table({**columns, "hop0": lists, "hop2": lists})

    with TemporaryDirectory() as name:
        home = Path(name)
        (home / "mine.rows").mkdir()
        write_blocks(first := home / "mine.rows" / "0.parquet", tables())
        for number in range(1, rows // each):
            first.with_name(f"{number}.parquet").symlink_to(first)
        job = Job("rows", GCN((FEATURES, 64, CLASSES)), method="pace-ridge")
        write_job(home / "job.pace", job)
        files = ("--keep", home / "mine.local", "--upload", home / "mine.up", "--yes")
        words = ("client", "fit", home / "job.pace", "--rows", first.parent)
        return child("-m", "pace", *words, *files)[0]


def main(who: str, rows: int) -> None:
    torch.set_num_threads(1)
    if who == "command":
        point = command(rows)
    else:
        fit = {"pace": pace, "ridge": ridge, "sgd": sgd}[who]
        fit(100)  # imports
        point = {"seconds": spent(lambda: fit(rows)), "peak_mb": peak()}
    print(json.dumps({"rows": rows, **point}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
