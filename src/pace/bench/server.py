"""The server with many clients: time a client, and memory, as their number grows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch

from pace import protocol, wire
from pace.bench.memory import peak
from pace.carrier import compress, pack
from pace.federation import Federation
from pace.gcn import GCN
from pace.methods import Pace

WIDTHS = (1433, 64, 7)  # Cora's
DISTINCT = 64  # uploads that are really different; the rest repeat them


class Repeated:
    """So many uploads, of which few are held."""

    def __init__(self, frames: list[bytes], count: int) -> None:
        self.frames, self.count = frames, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> bytes:
        return self.frames[place % len(self.frames)]

    def __iter__(self) -> Iterator[bytes]:
        return (self[place] for place in range(self.count))


def growth(counts: list[int]) -> Iterator[dict[str, Any]]:
    """Milliseconds a client of `merge`, from bytes to bytes, and of one SVD of its update."""
    federation = Federation(GCN(WIDTHS), Pace())
    frames = [wire.encode(upload(federation, seed), federation.digest) for seed in range(DISTINCT)]
    update = torch.randn(WIDTHS[1], WIDTHS[0])
    for count in counts:
        began = time.perf_counter()
        for _ in protocol.merging(Repeated(frames, count), federation):  # type: ignore[arg-type]
            pass
        ours = (time.perf_counter() - began) / count
        began = time.perf_counter()
        for _ in range(20):
            torch.linalg.svd(update, full_matrices=False)
        svd = (time.perf_counter() - began) / 20
        yield {
            "clients": count,
            "ms_per_client": 1e3 * ours,
            "svd_ms": 1e3 * svd,
            "ratio": svd / ours,
            "peak_mb": peak(),
        }


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
