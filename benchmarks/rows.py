"""A site as a stream of rows: seconds and memory of its fit, beside scikit-learn's ridge on them.

Each size in a process of its own. Rows are made as they are read, so that the disk is not measured;
scikit-learn takes them all at once, and only as many as fit. Seconds are the processor's.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator

import torch

from benchmarks.clock import by_itself, peak

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
PEER_ROWS = 1_000_000  # of 128 columns: half a gigabyte, and as much again in the solver
FEATURES, CLASSES, BLOCK = 128, 40, 8192


def sweep(sizes: tuple[int, ...] = SIZES) -> Iterator[dict[str, float]]:
    """A point for each size, with the exponent of growth from the size before it."""
    last: dict[str, float] = {}
    for rows in sizes:
        point = by_itself("benchmarks.rows", "pace", rows)
        if last:
            growth = math.log(rows / last["rows"])
            for key in ("seconds", "peak_mb"):
                point[f"{key}_exponent"] = math.log(point[key] / last[key]) / growth
        last = point
        if rows <= PEER_ROWS:
            peer = by_itself("benchmarks.rows", "sklearn", rows)
            point |= {f"sklearn_{key}": peer[key] for key in ("seconds", "peak_mb")}
        yield point


def blocks(rows: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Labels and features, some at a time: a class's direction, and noise."""
    random = torch.Generator().manual_seed(0)
    directions = torch.randn(CLASSES, FEATURES, generator=random)
    noise = torch.randn(BLOCK, FEATURES, generator=random)
    for first in range(0, rows, BLOCK):
        y = torch.randint(CLASSES, (min(BLOCK, rows - first),), generator=random)
        yield y, directions[y] + 3 * noise[: len(y)].roll(first // BLOCK, 1)


def one(who: str, rows: int) -> dict[str, float]:
    torch.set_num_threads(1)
    began, before = time.process_time(), peak()
    if who == "sklearn":
        from sklearn.linear_model import Ridge

        before, labels, features = peak(), [], []
        for y, x in blocks(rows):
            labels.append(y)
            features.append(x)
        x = torch.cat(features)
        features.clear()
        targets = torch.nn.functional.one_hot(torch.cat(labels), CLASSES).float()
        began = time.process_time()
        Ridge(alpha=3.0, fit_intercept=False, solver="cholesky").fit(x.numpy(), targets.numpy())
    else:
        from pace.methods import make
        from pace.models import GCN, RowTable
        from pace.protocol import Federation, steps

        def stream() -> Iterator[RowTable]:
            for y, x in blocks(rows):
                train = torch.zeros_like(y)
                yield RowTable.of(y, train, {"hop0": x, "hop2": x.roll(1, 0)}, FEATURES)

        federation = Federation(GCN((FEATURES, 64, CLASSES)), make("pace-ridge"))
        none = torch.zeros(0, dtype=torch.int64)
        before, began = peak(), time.process_time()
        steps.fit_rows(RowTable.of(none, none, {}, FEATURES, stream=stream), federation)
    seconds = time.process_time() - began
    return {"rows": rows, "seconds": seconds, "peak_mb": peak(), "before_mb": before}


if __name__ == "__main__":
    print(json.dumps(one(sys.argv[1], int(sys.argv[2]))))
