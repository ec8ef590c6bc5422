"""A site as a stream of rows: seconds and memory of its fit, beside scikit-learn on the same rows.

Each a process of its own: `python -m benchmarks.rows pace 100000000`. Rows are made as they are read,
so that the disk is not measured; `command` in place of `pace` reads them from Parquet files. As peers
`ridge`, scikit-learn's with all rows at once, and `sgd`, its linear model by gradient steps in a stream.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from benchmarks import clock

FEATURES, CLASSES, BLOCK = 128, 40, 8192
MILLION = 1_000_000


def blocks(
    rows: int, features: int = FEATURES, size: int = BLOCK
) -> Iterator[tuple[Tensor, Tensor]]:
    """Labels and features, some at a time: a class's direction, and noise."""
    random = torch.Generator().manual_seed(0)
    directions = torch.randn(CLASSES, features, generator=random)
    noise = 3 * torch.randn(size, features, generator=random)
    for first in range(0, rows, size):
        y = torch.arange(first, min(rows, first + size)) % CLASSES
        yield y, directions[y] + noise[: len(y)].roll(first // size, 1)


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

    none = torch.zeros(0, dtype=torch.int64)
    table = RowTable.of(none, none, {}, FEATURES, stream=stream)
    steps.fit(table, Federation(GCN((FEATURES, 64, CLASSES)), make("pace-ridge")))


def command(rows: int, home: Path) -> dict[str, float]:
    """`pace client fit --rows` on files: one of a million rows, under as many names as are needed."""
    import pandas

    from pace.jobs import Job, write_job
    from pace.models import GCN

    (folder := home / "mine.rows").mkdir()
    y, x = map(torch.cat, zip(*blocks(min(rows, MILLION)), strict=True))
    hops = {"hop0": list(x.numpy()), "hop2": list(x.numpy())}
    table = pandas.DataFrame({"id": y, "split": "train", "label": y, **hops})
    table.to_parquet(first := folder / "0.parquet", row_group_size=BLOCK)
    for number in range(1, rows // MILLION):
        (folder / f"{number}.parquet").symlink_to(first)
    job = Job("rows", GCN((FEATURES, 64, CLASSES)), method="pace-ridge")
    write_job(home / "job.pace", job)
    fit = ("-m", "pace", "client", "fit", home / "job.pace", "--rows", folder, "--yes")
    return clock.child(*fit, "--keep", home / "mine.local", "--upload", home / "mine.up")[0]


def main(who: str, rows: int) -> Iterator[clock.Point]:
    """Print a JSON object."""
    if who == "command":
        with TemporaryDirectory() as home:
            taken = command(rows, Path(home))
    else:
        fit = {"pace": pace, "ridge": ridge, "sgd": sgd}[who]
        fit(100)  # imports
        _, taken = clock.cost(fit, rows)
    yield {"who": who, "rows": rows, **taken}


if __name__ == "__main__":
    clock.command(main)
