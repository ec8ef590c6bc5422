"""The server under load: ten thousand uploads as files, and a round with hundreds of sites.

    python benchmarks/load.py [--uploads 10000] [--sites 50,200,500]

Files: one upload in a hundred is hostile; every good client must be served and every bad file named.
Round: signed uploads through the real round (admission, journal, decision, delivery) over an engine in
memory; of twenty sites one never answers and one answers only when it is asked again. Waiting is
skipped, so seconds are the server's own.

Prints a JSON object for each: seconds, files opened, the peak of memory so far.
"""

import json
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import typer

from benchmarks.clock import cost
from benchmarks.in_memory import Clock, Handler, InMemory, LostError
from pace.datasets import Synthetic, client_graphs, generator, synthetic
from pace.jobs import SERVER, Job, Journal, signatures, write_job
from pace.jobs import roll as rolls
from pace.models import GCN
from pace.protocol import Message, steps, wire
from pace.runtimes.files import merge_files
from pace_network import exchange
from pace_network.exchange import UPLOAD, Words
from pace_network.round import Settings, play_round

FEATURES, CLASSES = 40, 4
HOSTILE = 100  # one in this many
SILENT, LATE, TWENTY = 3, 7, 20  # of each twenty sites, one never answers, one on the second time

EVENTS: Counter[str] = Counter()  # that Python audits, for the life of the process
sys.addaudithook(lambda event, _: EVENTS.update((event,)))


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
    settings = Synthetic(nodes=90, classes=CLASSES, features=FEATURES, communities=2, words=6)
    (graph,) = client_graphs(synthetic(settings), [range(90)], CLASSES, generator())
    honest = dict(steps.check_upload(steps.fit(graph, job.federation)[1], job.federation))
    random = torch.Generator().manual_seed(1)
    for _ in range(count):
        noise = torch.randn(honest["0.bias"].shape, generator=random)
        yield {**honest, "0.bias": honest["0.bias"] + 0.01 * noise}


def measure(folder: Path, uploads: int) -> dict[str, Any]:
    """So many uploads as files, the hostile ones with the code that each is to be refused by."""
    names, inbox, bad = tuple(f"c{place:05}" for place in range(uploads)), folder / "inbox", {}
    job = make_job(names)
    digest = job.federation.digest
    inbox.mkdir(parents=True)
    for place, (name, message) in enumerate(zip(names, alike(job, uploads), strict=True)):
        content = wire.encode(message, digest)
        if place % HOSTILE == HOSTILE - 1:
            kinds = list(lies(message, digest).items())
            bad[name], content = kinds[place // HOSTILE % len(kinds)]
        (inbox / f"{name}.up").write_bytes(content)
    out = folder / "out"
    merge = partial(merge_files, job, [inbox], out=out)
    report, taken = cost(partial(merge, journal=folder / "journal"))
    served = {path.stem for path in out.glob("*.down")}
    refused = {refusal.sender: refusal.code for refusal in report.refused}
    assert served == set(names) - set(bad), "a good client was not served"
    assert refused == bad, "a bad file was not named by its kind"
    codes, size = dict(Counter(refused.values())), report.bytes.upload_frame
    return {
        "uploads": uploads,
        "served": len(served),
        "refused": codes,
        "upload_bytes": size,
    } | taken


def played_round(folder: Path, sites: int) -> dict[str, Any]:
    """One round with so many sites, each with a key."""
    names = tuple(f"site-{place:04}" for place in range(sites))
    keys = {
        name: signatures.new_keys(folder / "keys" / f"{name}.key", folder / "keys" / f"{name}.pub")
        for name in (*names, SERVER)
    }
    job = make_job(names, keys=keys)
    write_job(folder / "job.pace", job)
    silent, late = set(names[SILENT::TWENTY]), set(names[LATE::TWENTY])
    adopted: Counter[str] = Counter()

    def site(name: str, frame: bytes, signed: bytes) -> Handler:
        def handle(kind: str, words: Words) -> Words | None:
            if kind == UPLOAD:
                if name in late:
                    late.discard(name)
                    raise LostError("late")
                return None if name in silent else {"code": "ok", "name": name, "payload": signed}
            came, checked = words["payload"], {"job": job.digest, "name": name}
            signatures.verify(came, keys[SERVER], kind=signatures.RETURN, **checked)
            rolls.check_roll(words["roll"], job, name, upload=frame, returned=came)
            adopted[name] += 1
            return {}

        return handle

    handlers = {}
    for place, (name, message) in enumerate(zip(names, alike(job, sites), strict=True)):
        key = signatures.load_key(folder / "keys" / f"{name}.key")
        frame = wire.encode(message, job.federation.digest)
        signed = signatures.sign(frame, key, kind=UPLOAD, job=job.digest, name=name)
        handlers[str(2**62 + place)] = site(name, frame, signed)
    paths = (folder / "job.pace", folder / "job.journal", folder / "report")
    settings = Settings(*paths, key=folder / "keys" / f"{SERVER}.key")
    with mock.patch.object(exchange, "time", Clock()):
        opened, journal = EVENTS["open"], Journal.open(settings.journal, job)
        play = partial(play_round, InMemory(handlers), settings, journal)
        (report, opens), taken = cost(lambda: (play(), EVENTS["open"] - opened))
    assert report.finished, report.waiting
    assert set(adopted) == set(names) - silent == {client.name for client in report.took_part}
    assert set(adopted.values()) == {1}, "a return was sent twice"
    counts = {"sites": sites, "adopted": len(adopted), "missing": len(silent), "opens": opens}
    return counts | taken


def main(uploads: int = 10_000, sites: str = "50,200,500") -> None:
    """So many uploads as files (0: none), and a round of each number of sites (empty: none)."""
    torch.set_num_threads(1)
    counts = map(int, filter(None, sites.split(",")))
    for measured, count in (*((played_round, n) for n in counts), (measure, uploads)):
        if count:
            with tempfile.TemporaryDirectory() as folder:
                print(json.dumps(measured(Path(folder), count)), flush=True)


if __name__ == "__main__":
    typer.run(main)
