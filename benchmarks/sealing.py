"""What sealing costs a client and the server, against CKKS by TenSEAL where that is installed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.clock import Point, spent
from benchmarks.server import merged, upload
from pace.jobs import signatures
from pace.methods import Pace
from pace.models import GCN
from pace.protocol import Federation, Ring, Summable, counted, in_ring, layouts, ring, wire

SHAPES = {
    "cora": (1433, 64, 7),
    "citeseer": (3703, 64, 6),
    "pubmed": (500, 64, 3),
    "cs": (6805, 64, 15),
    "computers": (767, 64, 10),
    "ogbn-arxiv": (128, 64, 40),
}
COHORTS = (3, 10, 100)
SERVED = 1_000  # clients of the server that is measured


def sealed(turns: int, *, quick: bool = False) -> Iterator[Point]:
    """Milliseconds of CPU time and bytes a client, for each shape and cohort; then the server's."""
    for name, widths in list(SHAPES.items())[: 1 if quick else None]:
        agreed = Federation(GCN(widths), Pace(), sealed=True, clients=SERVED)
        numbers = _statistic(agreed)
        frame = wire.framed(layouts.upload_layout(agreed), numbers.to_bytes(), agreed.digest)
        dense = 4 * sum(value.numel() for value in agreed.start.values())
        for clients in COHORTS[: 1 if quick else None]:
            seal, *_ = signatures.ephemeral_seals(
                [f"{i:04}" for i in range(clients)], agreed.digest
            )
            yield {
                "shape": name,
                "clients": clients,
                "numbers": len(numbers.high),
                "seal_ms": 1e3 * spent(partial(seal, numbers), turns),
                "upload_bytes": len(frame),
                "upload_percent_of_dense": 100 * len(frame) / dense,
                "return_bytes": layouts.return_layout(agreed).size,
            }
        if (peer := ckks(len(numbers.high), turns)) is not None:
            yield {"shape": name, **peer}
    yield server(turns, SERVED if not quick else 10)


def _statistic(agreed: Federation) -> Ring:
    """A client's statistic in the ring, not yet masked."""
    method = agreed.method
    assert isinstance(method, Summable)
    return in_ring(counted(method.statistic_of(upload(agreed, 0), agreed)), agreed.clients)


def server(turns: int, clients: int) -> Point:
    """Adding up and answering at Cora's shape. Masks are left out: they do not change its work."""
    agreed = Federation(GCN(SHAPES["cora"]), Pace(), sealed=True, clients=clients)
    frame = wire.framed(layouts.upload_layout(agreed), _statistic(agreed).to_bytes(), agreed.digest)
    seconds = spent(partial(merged, [frame], clients, agreed), turns)
    return {"shape": "cora", "server_of_clients": clients, "server_ms": 1e3 * seconds}


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
    values = torch.randn(count).tolist()
    slots = 8192 // 2

    def encrypt() -> int:
        chunks = (values[begin : begin + slots] for begin in range(0, count, slots))
        return sum(len(tenseal.ckks_vector(context, chunk).serialize()) for chunk in chunks)

    return {
        "peer": f"TenSEAL {tenseal.__version__}, CKKS 8192",
        "peer_ms": 1e3 * spent(encrypt, turns),
        "peer_bytes": encrypt(),
        "peer_bytes_a_number": encrypt() / count,
        "ours_bytes_a_number": ring.NUMBER,
    }
