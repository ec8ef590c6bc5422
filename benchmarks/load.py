"""The file server under load: ten thousand uploads, one in a hundred hostile.

    python benchmarks/load.py [--uploads 10000] [--out DIR]

Every good client must be served and every bad file named. Prints seconds, bytes and peak memory of
`pace server merge` as one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

from pace.data.synthetic import Synthetic, synthetic
from pace.jobs.job import Job
from pace.models.gcn import GCN
from pace.partition.split import client_graphs, generator
from pace.protocol import steps, wire
from pace.runtimes.files.merge import merge

FEATURES, CLASSES = 40, 4
HOSTILE = 100  # one in this many

Message = dict[str, torch.Tensor]


def flipped(frame: bytes) -> bytes:
    """The frame with one bit of its checksum changed: never the same frame by chance."""
    return frame[:-1] + bytes([frame[-1] ^ 1])


def lies(job: Job) -> dict[str, Callable[[Message], bytes]]:
    """Code of the refusal -> a file that deserves it."""

    def framed(message: Message, digest: bytes = job.federation.digest) -> bytes:
        return wire.encode(message, digest)

    def with_number(message: Message, name: str, number: float) -> bytes:
        return framed({**message, name: torch.full_like(message[name], number)})

    return {
        "size": lambda message: framed(message)[:-1],
        "damaged": lambda message: flipped(framed(message)),
        "format": lambda message: bytes(len(framed(message))),
        "other-job": lambda message: framed(message, b"otherjob"),
        "not-finite": lambda message: with_number(message, "0.bias", math.nan),
        "moment": lambda message: with_number(message, "0.weight/m", 1e6),
    }


def fill(inbox: Path, job: Job, uploads: int) -> dict[str, str]:
    """Distinct uploads of one trained client; the hostile ones, by name, with their codes."""
    inbox.mkdir(parents=True)
    settings = Synthetic(nodes=90, classes=CLASSES, features=FEATURES, communities=2, words=6)
    (graph,) = client_graphs(synthetic(settings), [range(90)], CLASSES, generator())
    honest = dict(steps.check_upload(steps.fit(graph, job.federation)[1], job.federation))
    random, bad = torch.Generator().manual_seed(1), {}
    kinds = list(lies(job).items())
    for place in range(uploads):
        noise = torch.randn(honest["0.bias"].shape, generator=random)
        message = {**honest, "0.bias": honest["0.bias"] + 0.01 * noise}
        name, content = f"c{place:05}", wire.encode(message, job.federation.digest)
        if place % HOSTILE == HOSTILE - 1:
            bad[name], lie = kinds[place // HOSTILE % len(kinds)]
            content = lie(message)
        (inbox / f"{name}.up").write_bytes(content)
    return bad


def measure(folder: Path, uploads: int) -> dict[str, object]:
    names = tuple(f"c{place:05}" for place in range(uploads))
    gcn = GCN((FEATURES, 16, CLASSES))
    job = Job("load", gcn, epochs=5, participants=names, minimum=uploads * 9 // 10)
    bad = fill(folder / "inbox", job, uploads)
    began = time.perf_counter()
    found = merge(job, [folder / "inbox"], journal=folder / "journal", out=folder / "out")
    seconds = time.perf_counter() - began
    served = {path.stem for path in (folder / "out").glob("*.down")}
    refused = {each["sender"]: each["code"] for each in found["refused"]}
    assert served == set(names) - set(bad), "a good client was not served"
    assert refused == bad, "a bad file was not named by its kind"
    return {
        "uploads": uploads,
        "served": len(served),
        "refused": dict(Counter(refused.values())),
        "seconds": round(seconds, 1),
        "uploads_per_second": round(uploads / seconds),
        "upload_bytes": found["bytes"]["upload_frame"],
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--uploads", type=int, default=10_000)
    parser.add_argument("--out", type=Path, help="a folder on the disk to measure")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=given.out) as folder:
        print(json.dumps(measure(Path(folder), given.uploads)))


if __name__ == "__main__":
    main()
