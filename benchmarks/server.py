"""What many clients cost the server, and each other where uploads are sealed, as their number grows.

All as CPU time, which other work on the machine does not add to.
"""

import importlib
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any

import pandas as pd
import torch

from benchmarks.clock import Point, peak, spent
from pace.jobs import ephemeral_seals
from pace.merging import corrections, mean, summed, unpack
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
    pace, ridge = (Federation(GCN(SHAPES["cora"]), method) for method in (Pace(), PaceRidge()))
    frames = {
        agreed: [
            wire.encode(upload(agreed, seed), agreed.digest, numbers=agreed.numbers)
            for seed in range(DISTINCT)
        ]
        for agreed in (pace, ridge)
    }
    uploads = steps.received(frames[pace], pace)
    carriers = [unpack(batch, pace.start) for batch in uploads.batches()]
    shared = mean(summed((carrier, {}) for carrier in carriers))
    update = torch.randn(pace.start["0.weight"].shape)

    def svd() -> float:
        return spent(lambda: torch.linalg.svd(update, full_matrices=False), turns=DISTINCT)

    def turn(count: int) -> dict[str, float]:
        before = svd()
        correct = spent(lambda: list(corrections(shared, carriers)))
        merge, merge_ridge = (spent(merged, frames[agreed], count, agreed) for agreed in frames)
        return {
            "correction_ms": 1e3 * correct / DISTINCT,
            "merge_ms": 1e3 * merge / count,
            "ridge_ms": 1e3 * merge_ridge / count,
            "svd_ms": 1e3 * (before + svd()) / 2,
        }

    for count in counts:
        taken = pd.DataFrame([turn(count) for _ in range(turns)])
        ratios = taken.svd_ms / taken.merge_ms
        spread = {"lowest": ratios.min(), "highest": ratios.max(), "peak_mb": peak()}
        yield {"clients": count, **taken.median(), "against_svd": ratios.median(), **spread}


def merged(frames: Sequence[bytes], count: int, federation: Federation) -> None:
    """So many uploads from bytes to returns; few are held, and repeated."""
    uploads = list(islice(cycle(frames), count))
    for _ in steps.returns(steps.received(uploads, federation), federation):
        pass


def upload(federation: Federation, seed: int) -> Message:
    """Random numbers of the sizes that a method sends; rows fall off as a spectrum does."""
    generator = torch.Generator().manual_seed(seed)
    message = {}
    for name, shape in layouts.upload_layout(federation).items():
        value = torch.randn(shape, generator=generator)
        falling = torch.arange(1, len(value) + 1) ** -0.5
        message[name] = value.abs() if value.ndim == 1 else falling[:, None] * value
    return message


def sealed(turns: int) -> Iterator[Point]:
    """Milliseconds and bytes a client, for each shape and cohort; CKKS where TenSEAL is installed."""
    for name, widths in SHAPES.items():
        agreed = Federation(GCN(widths), Pace(), sealed=True, clients=COHORTS[-1])
        statistic = layouts.summable(agreed).statistic_of(upload(agreed, 0), agreed)
        numbers = in_ring(counted(statistic), agreed.clients)
        count = len(numbers.high)
        sent, returned = layouts.upload_layout(agreed).size, layouts.return_layout(agreed).size
        sizes = {"numbers": count, "upload_bytes": sent, "return_bytes": returned}
        for clients in COHORTS:
            seal, *_ = ephemeral_seals([f"{i:04}" for i in range(clients)], agreed.digest)
            seconds = spent(seal, numbers, turns=turns)
            yield {"shape": name, "clients": clients, "seal_ms": 1e3 * seconds, **sizes}
        if importlib.util.find_spec("tenseal"):
            yield {"shape": name, **ckks(count, turns)}


def ckks(count: int, turns: int) -> Point:
    """The same numbers encrypted by TenSEAL at NVFlare's setting."""
    tenseal: Any = importlib.import_module("tenseal")
    settings = {"poly_modulus_degree": 8192, "coeff_mod_bit_sizes": [60, 40, 40]}
    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, **settings)
    context.global_scale = 2**40
    chunks = torch.randn(count).split(8192 // 2)

    def encrypt() -> int:
        return sum(len(tenseal.ckks_vector(context, c.tolist()).serialize()) for c in chunks)

    peer = f"TenSEAL {tenseal.__version__}, CKKS 8192"
    return {"peer": peer, "peer_ms": 1e3 * spent(encrypt, turns=turns), "peer_bytes": encrypt()}
