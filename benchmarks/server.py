"""What many clients cost the server, and each other where uploads are sealed, as their number grows.

All as CPU time, which other work on the machine does not add to.
"""

import importlib
import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from typing import Any

import torch

from benchmarks.clock import Point, peak, spent
from pace.jobs import ephemeral_seals
from pace.merging import batches, compress, corrections, mean, pack, summed, unpack
from pace.methods import Pace, PaceRidge
from pace.models import GCN
from pace.protocol import Federation, Message, counted, in_ring, layouts, steps, wire

SHAPES = {
    "cora": (1433, 64, 7),
    "citeseer": (3703, 64, 6),
    "pubmed": (500, 64, 3),
    "cs": (6805, 64, 15),
    "computers": (767, 64, 10),
    "ogbn-arxiv": (128, 64, 40),
}
COHORTS = (3, 10, 100)
DISTINCT = 64  # uploads that are really different; the rest repeat them


def growth(counts: Sequence[int], turns: int = 3) -> Iterator[Point]:
    """Milliseconds a client: of `merge` from bytes to bytes, of its correction, of one dense SVD,
    and of pace-ridge's merge.

    In turns. A turn has as many SVDs before the others as after them, since the machine's pace drifts.
    Ratios are medians over the turns, with the lowest and the highest.
    """
    federation, ridge = (Federation(GCN(SHAPES["cora"]), each) for each in (Pace(), PaceRidge()))
    uploads = [upload(federation, seed) for seed in range(DISTINCT)]
    frames = [wire.encode(each, federation.digest) for each in uploads]
    carriers = [unpack(batch, federation.start) for batch in batches(uploads)]
    shared = mean(summed((carrier, {}) for carrier in carriers))
    rows = [regressed(ridge, seed) for seed in range(DISTINCT)]
    ridge_frames = [wire.encode(each, ridge.digest, numbers=ridge.numbers) for each in rows]
    update = torch.randn(federation.start["0.weight"].shape)

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


def upload(federation: Federation, seed: int) -> Message:
    """An update with a few strong directions in noise, and moments."""
    generator = torch.Generator().manual_seed(seed)
    update, moments = {}, {}
    for name, value in federation.start.items():
        update[name] = torch.randn(value.shape, generator=generator)
        if value.ndim == 2:
            strong = torch.randn(len(value), 8, generator=generator)
            update[name] += strong @ torch.randn(8, value.shape[1], generator=generator)
            moments[f"{name}/m"] = torch.rand(value.shape[1], generator=generator)
    return pack(compress(update)) | moments


def regressed(federation: Federation, seed: int) -> Message:
    """Rows and labels of the sizes that pace-ridge sends, which fall off as a spectrum does."""
    generator = torch.Generator().manual_seed(seed)
    falling = torch.arange(1, 13)[:, None] ** -0.5
    return {
        name: falling * torch.randn(shape, generator=generator)
        for name, shape in layouts.upload_layout(federation).items()
    }


def sealed(turns: int, few: int | None = None) -> Iterator[Point]:
    """Milliseconds and bytes a client, for each shape and cohort; CKKS where TenSEAL is installed."""
    for name, widths in list(SHAPES.items())[:few]:
        agreed = Federation(GCN(widths), Pace(), sealed=True, clients=COHORTS[-1])
        statistic = layouts.summable(agreed).statistic_of(upload(agreed, 0), agreed)
        numbers = in_ring(counted(statistic), agreed.clients)
        count = len(numbers.high)
        frame = wire.framed(layouts.upload_layout(agreed), numbers.to_bytes(), agreed.digest)
        returned = layouts.return_layout(agreed).size
        sizes = {"numbers": count, "upload_bytes": len(frame), "return_bytes": returned}
        for clients in COHORTS[:few]:
            seal, *_ = ephemeral_seals([f"{i:04}" for i in range(clients)], agreed.digest)
            seconds = spent(partial(seal, numbers), turns)
            yield {"shape": name, "clients": clients, "seal_ms": 1e3 * seconds, **sizes}
        if (peer := ckks(count, turns)) is not None:
            yield {"shape": name, **peer}


def ckks(count: int, turns: int) -> Point | None:
    """The same numbers encrypted by TenSEAL at NVFlare's setting; None where it is not installed."""
    try:
        tenseal: Any = importlib.import_module("tenseal")
    except ImportError:
        return None
    context = tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, poly_modulus_degree=8192, coeff_mod_bit_sizes=[60, 40, 40]
    )
    context.global_scale = 2**40
    values, slots = torch.randn(count).tolist(), 8192 // 2

    def encrypt() -> int:
        chunks = (values[begin : begin + slots] for begin in range(0, count, slots))
        return sum(len(tenseal.ckks_vector(context, chunk).serialize()) for chunk in chunks)

    peer = f"TenSEAL {tenseal.__version__}, CKKS 8192"
    return {"peer": peer, "peer_ms": 1e3 * spent(encrypt, turns), "peer_bytes": encrypt()}
