"""What sealing costs a client, against CKKS by TenSEAL where that is installed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.clock import Point, spent
from benchmarks.server import upload
from pace.jobs import signatures
from pace.methods import Pace
from pace.models import GCN
from pace.protocol import Federation, Summable, counted, in_ring, layouts, wire

SHAPES = {
    "cora": (1433, 64, 7),
    "citeseer": (3703, 64, 6),
    "pubmed": (500, 64, 3),
    "cs": (6805, 64, 15),
    "computers": (767, 64, 10),
    "ogbn-arxiv": (128, 64, 40),
}
COHORTS = (3, 10, 100)


def sealed(turns: int, *, quick: bool = False) -> Iterator[Point]:
    """Milliseconds of CPU time and bytes a client, for each shape and cohort."""
    few = 1 if quick else None
    for name, widths in list(SHAPES.items())[:few]:
        agreed = Federation(GCN(widths), Pace(), sealed=True, clients=COHORTS[-1])
        method = agreed.method
        assert isinstance(method, Summable)
        statistic = method.statistic_of(upload(agreed, 0), agreed)
        numbers = in_ring(counted(statistic), agreed.clients)
        frame = wire.framed(layouts.upload_layout(agreed), numbers.to_bytes(), agreed.digest)
        sizes = {
            "numbers": len(numbers.high),
            "upload_bytes": len(frame),
            "return_bytes": layouts.return_layout(agreed).size,
        }
        for clients in COHORTS[:few]:
            names = [f"{i:04}" for i in range(clients)]
            seal, *_ = signatures.ephemeral_seals(names, agreed.digest)
            seconds = spent(partial(seal, numbers), turns)
            yield {"shape": name, "clients": clients, "seal_ms": 1e3 * seconds, **sizes}
        if (peer := ckks(len(numbers.high), turns)) is not None:
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
