"""The file server under load: thousands of uploads as files, one in a hundred hostile.

    python -m benchmarks.load [--uploads 10000]

Every good client must be served and every bad file named. Prints a JSON object: how many were refused
for what, seconds, the peak of memory.
"""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.clock import Point, command, cost
from pace.datasets import load, with_drawn_masks
from pace.jobs import Job
from pace.models import GCN
from pace.protocol import Message, steps, wire
from pace.runtimes.files import merge_files

FEATURES, CLASSES = 40, 4
GRAPH = f"synthetic:nodes=90,classes={CLASSES},features={FEATURES},communities=2,words=6"
HOSTILE = 100  # one in this many


def make_job(names: tuple[str, ...], **settings: Any) -> Job:
    """Of a small network; nine of ten participants are enough."""
    gcn, least = GCN((FEATURES, 16, CLASSES)), len(names) * 9 // 10
    return Job("load", gcn, epochs=5, participants=names, minimum=least, **settings)


def lies(message: Message, digest: bytes) -> dict[str, bytes]:
    """Code of the refusal -> a file that deserves it, in place of the message."""
    frame = wire.encode(message, digest)

    def with_number(name: str, number: float) -> bytes:
        return wire.encode({**message, name: torch.full_like(message[name], number)}, digest)

    return {
        "size": frame[:-1],
        "damaged": frame[:-1] + bytes([frame[-1] ^ 1]),  # never the same frame by chance
        "format": bytes(len(frame)),
        "other-job": wire.encode(message, b"otherjob"),
        "not-finite": with_number("0.bias", math.nan),
        "moment": with_number("0.weight/m", 1e6),
    }


def alike(job: Job, count: int) -> Iterator[Message]:
    """Distinct uploads of one trained client."""
    graph = with_drawn_masks(load(GRAPH), CLASSES)
    honest = dict(steps.check_upload(steps.fit(graph, job.federation)[1], job.federation))
    random = torch.Generator().manual_seed(1)
    for _ in range(count):
        noise = torch.randn(honest["0.bias"].shape, generator=random)
        yield {**honest, "0.bias": honest["0.bias"] + 0.01 * noise}


def main(uploads: int = 10_000) -> Iterator[Point]:
    """So many uploads as files, the hostile ones with the code that each is to be refused by."""
    names, bad = tuple(f"c{number:05}" for number in range(uploads)), {}
    job = make_job(names)
    digest = job.federation.digest
    with TemporaryDirectory() as home:
        inbox, out, journal = (Path(home, name) for name in ("inbox", "out", "journal"))
        inbox.mkdir()
        for number, (name, message) in enumerate(zip(names, alike(job, uploads), strict=True)):
            content = wire.encode(message, digest)
            if number % HOSTILE == HOSTILE - 1:
                kinds = list(lies(message, digest).items())
                bad[name], content = kinds[number // HOSTILE % len(kinds)]
            (inbox / f"{name}.up").write_bytes(content)
        report, taken = cost(merge_files, job, [inbox], out=out, journal=journal)
        served = {path.stem for path in out.glob("*.down")}
    refused = {refusal.sender: refusal.code for refusal in report.refused}
    assert served == set(names) - set(bad), "a good client was not served"
    assert refused == bad, "a bad file was not named by its kind"
    counts = {"uploads": uploads, "served": len(served), "refused": Counter(refused.values())}
    yield counts | {"upload_bytes": report.bytes.upload_frame} | taken


if __name__ == "__main__":
    command(main)
