"""The server with many clients: time a client, and memory, as their number grows."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice

import torch

from benchmarks.clock import Point, peak, spent
from pace.merging import batches, compress, corrections, mean, pack, summed, unpack
from pace.methods import Pace, PaceRidge
from pace.models import GCN
from pace.protocol import Federation, layouts, steps, wire

WIDTHS = (1433, 64, 7)  # Cora's
DISTINCT = 64  # uploads that are really different; the rest repeat them


def growth(counts: Sequence[int], turns: int = 3) -> Iterator[Point]:
    """Milliseconds a client: of `merge` from bytes to bytes, of its correction, of one dense SVD,
    and of pace-ridge's merge.

    In turns, as CPU time, which other work on the machine does not add to. A turn has as many SVDs
    before the others as after them, since the machine's pace drifts. Ratios are medians over the
    turns, with the lowest and the highest.
    """
    federation = Federation(GCN(WIDTHS), Pace())
    uploads = [upload(federation, seed) for seed in range(DISTINCT)]
    frames = [wire.encode(each, federation.digest) for each in uploads]
    carriers = [unpack(batch, federation.start) for batch in batches(uploads)]
    shared = mean(summed((carrier, {}) for carrier in carriers))
    ridge = Federation(GCN(WIDTHS), PaceRidge())
    rows = [regressed(ridge, seed) for seed in range(DISTINCT)]
    ridge_frames = [wire.encode(each, ridge.digest, numbers=ridge.numbers) for each in rows]
    update = torch.randn(WIDTHS[1], WIDTHS[0])

    def svds() -> None:
        for _ in range(DISTINCT):
            torch.linalg.svd(update, full_matrices=False)

    def turn(count: int) -> dict[str, float]:
        before = spent(svds)
        taken = {
            "correction_ms": spent(lambda: exhaust(corrections(shared, carriers))) / DISTINCT,
            "merge_ms": spent(partial(merged, frames, count, federation)) / count,
            "ridge_ms": spent(partial(merged, ridge_frames, count, ridge)) / count,
            "svd_ms": (before + spent(svds)) / (2 * DISTINCT),
        }
        return {name: 1e3 * seconds for name, seconds in taken.items()}

    svds()
    for count in counts:
        taken = [turn(count) for _ in range(turns)]
        ratios = [each["svd_ms"] / each["merge_ms"] for each in taken]
        yield {
            "clients": count,
            **{name: statistics.median(each[name] for each in taken) for name in taken[0]},
            "merge_against_svd": statistics.median(ratios),
            "lowest": min(ratios),
            "highest": max(ratios),
            "peak_mb": peak(),
        }


def merged(frames: Sequence[bytes], count: int, federation: Federation) -> None:
    """So many uploads from bytes to returns; few are held, and repeated."""
    uploads = list(islice(cycle(frames), count))
    exhaust(steps.returns(steps.received(uploads, federation), federation))


def exhaust(stream: Iterable[object]) -> None:
    deque(stream, maxlen=0)


def upload(federation: Federation, seed: int) -> dict[str, torch.Tensor]:
    """An update with a few strong directions in noise, and moments."""
    generator = torch.Generator().manual_seed(seed)
    update = {}
    for name, value in federation.start.items():
        update[name] = torch.randn(value.shape, generator=generator)
        if value.ndim == 2:
            strong = torch.randn(len(value), 8, generator=generator)
            update[name] += strong @ torch.randn(8, value.shape[1], generator=generator)
    moments = {
        f"{name}/m": torch.rand(value.shape[1], generator=generator)
        for name, value in federation.start.items()
        if value.ndim == 2
    }
    return pack(compress(update)) | moments


def regressed(federation: Federation, seed: int) -> dict[str, torch.Tensor]:
    """Rows and labels of the sizes that pace-ridge sends, which fall off as a spectrum does."""
    generator = torch.Generator().manual_seed(seed)
    falling = torch.arange(1, 13)[:, None] ** -0.5
    return {
        name: falling * torch.randn(shape, generator=generator)
        for name, shape in layouts.upload_layout(federation).items()
    }
