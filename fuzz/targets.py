"""What reads bytes from outside, as functions of bytes: each ends, or raises a `PaceError`.

`seeds` are valid inputs to begin from. Readers of files get one in a folder in memory.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import torch
from fuzz import tables
from fuzz.examples import (
    dataset,
    divided,
    fitted,
    graph_of,
    job,
    key,
    sealed_fits,
    sealed_job,
    signed,
    signed_job,
    weighted_dataset,
)
from fuzz.scratch import FOLDER, placed, quiet, written
from tests.export.models import unscored
from tests.graphs import clients

from pace.datasets import file as graph_file
from pace.datasets import read_partition, write_partition
from pace.jobs import SERVER, Journal, Roll, admit, read_job, render_job, signatures
from pace.jobs import roll as rolls
from pace.jobs.editions import encode_record
from pace.protocol import External, layouts, steps, wire
from pace.runtimes.files import Members, inspect, model
from pace.task import nll

MODEL_FILES = ("model.json", "job.pace", "local.safetensors", "external.safetensors")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@cache
def model_folder() -> Path:
    folder = FOLDER / "whole.model"
    local, weights = fitted()[0].local, (0.5, 0.5)
    outcome = unscored(0.5, weights, job().model.classes)
    outcome = replace(outcome, job=job().digest)
    whole = model.SiteModel(job(), local, (External(local),), outcome, members())
    model.write_model(folder, whole)
    return folder


def members() -> Members:
    graph = clients(1)[0]
    return Members.of(graph, tuple(map(str, range(graph.nodes))))


def resealed(data: bytes) -> bytes:
    """The same bytes with a right checksum, which no mutation would find."""
    body = data[: -wire.CHECKSUM]
    return body + zlib.crc32(body).to_bytes(wire.CHECKSUM, "little")


def over_tail(honest: bytes, data: bytes) -> bytes:
    """A message with `data` written over its end, of the same size, with a right checksum."""
    body = (honest[: -wire.CHECKSUM - len(data)] + data)[: len(honest) - wire.CHECKSUM]
    return resealed(body.ljust(len(honest), b"\0"))


def frame(data: bytes) -> None:
    """Any bytes, as they are and with a right checksum, with sizes known and unknown."""
    layout = layouts.upload_layout(job().federation)
    for each in (data, resealed(data)):
        for expected in (None, layout):
            quiet(wire.decode, each, expected)


def upload(data: bytes) -> None:
    """An honest upload with `data` written over its tail, so that sizes always fit."""
    quiet(admit, over_tail(fitted()[1], data), "north", job())


def signature(data: bytes) -> None:
    """A signed upload with `data` over its trailer; then keys."""
    content = signed()
    quiet(admit, (content[: len(content) - len(data)] + data)[-len(content) :], "x", signed_job())
    path = placed(data, "a.pub")
    quiet(signatures.read_public_key, path)
    quiet(signatures.load_key, path)


def job_text(data: bytes) -> None:
    quiet(read_job, placed(data, "a.pace"))


def kept_file(data: bytes) -> None:
    quiet(model.read_kept, placed(data, "a.local"), job())


def graph_reader(data: bytes) -> None:
    quiet(graph_file.read_graph, placed(data, "a.graph"))


def partition(data: bytes) -> None:
    quiet(read_partition, placed(data, "a.json"), dataset())


def model_reader(data: bytes) -> None:
    """The first byte says which file of a model folder the rest replaces."""
    whole, folder = model_folder(), FOLDER / "a.model"
    folder.mkdir(exist_ok=True)
    changed = MODEL_FILES[data[0] % len(MODEL_FILES)] if data else ""
    for name in MODEL_FILES:
        place = folder / name
        if name == changed:
            place.unlink(missing_ok=True)
            place.write_bytes(data[1:])
        elif not place.exists() or not os.path.samefile(place, whole / name):
            place.unlink(missing_ok=True)
            os.link(whole / name, place)
    quiet(model.read_model, folder)


def journal(data: bytes) -> None:
    """A decision, and a refusal, that rotted."""
    folder = FOLDER / "a.journal"
    if not folder.exists():
        Journal.open(folder, job())
    (folder / "closed.json").write_bytes(data)
    (folder / "refused" / "a.json").write_bytes(data)
    book = Journal(folder, job())
    quiet(book.decision)
    quiet(book.refusals)


def inspected(data: bytes) -> None:
    """`pace inspect` decides by the bytes which reader they get."""
    quiet(inspect, placed(data, "a"))


def rolled(data: bytes) -> None:
    """A roll as it comes beside a return; and, where the job has keys, any bytes that are signed."""
    with_return = partial(rolls.check_roll, upload=fitted()[1], returned=b"return")
    quiet(with_return, data, job(), "north")
    made = signed_job()
    told = signatures.sign(data, key(SERVER), kind=signatures.ROLL, job=made.digest, name="north")
    quiet(with_return, told, made, "north")


def sealed(data: bytes) -> None:
    """A sealed upload, signed, with `data` over its tail: admitted, added up, answered, judged."""
    made = sealed_job()
    frames = [frame for _, frame in sealed_fits()]
    frames[0] = over_tail(frames[0], data)
    trailer = signatures.sign(
        frames[0], key("north"), kind=signatures.UPLOAD, job=made.digest, name="north"
    )
    quiet(admit, trailer, "x", made)
    quiet(lambda: judged(steps.merge(frames, made.federation)[1]))


def judged(returned: bytes) -> None:
    """South takes what came back: under masks any numbers are possible, and the gate decides."""
    graph, kept = graph_of("south"), sealed_fits()[1][0]
    adoption = steps.adopt(graph, kept, returned, sealed_job().federation)
    assert torch.isfinite(adoption.logits).all()
    labels = graph.y[graph.val]
    assert nll(adoption.logits[graph.val], labels) <= nll(adoption.local[graph.val], labels)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "frame": frame,
    "upload": upload,
    "signature": signature,
    "job": job_text,
    "kept": kept_file,
    "graph": graph_reader,
    "partition": partition,
    "model": model_reader,
    "journal": journal,
    "inspect": inspected,
    "roll": rolled,
    "sealed": sealed,
    **tables.TARGETS,
}


def seeds() -> dict[str, list[bytes]]:
    """Valid inputs of each target."""
    torch.set_num_threads(1)
    honest = fitted()[1]
    trained = model.Trained("north", "0", "2026-01-01T00:00:00+00:00", 1.0)
    kept_bytes = model.KeptModel(fitted()[0], honest, {}, trained, members()).encode(job())
    compact = written(lambda path: graph_file.write_graph(path, dataset()))
    split = written(lambda path: write_partition(path, dataset(), divided()))
    weighted = written(lambda path: graph_file.write_graph(path, weighted_dataset()))
    text = render_job(job()).encode()
    attended = Roll(
        job().digest, "north", sha256(honest), sha256(b"return"), "0" * 64,
        ("north", "south"), {}, (),
    )  # fmt: skip
    parts = [
        bytes([place]) + (model_folder() / name).read_bytes()
        for place, name in enumerate(MODEL_FILES)
    ]
    closed = json.dumps(
        {"job": job().digest, "uploads": {"north": "0" * 64}, "refused": {}, "missing": []}
    ).encode()
    refusal = json.dumps({"sender": "a", "sha256": None, "code": "size", "reason": "b"}).encode()
    public = (FOLDER / "north.pub").read_bytes() if signed() else b""
    return {
        "frame": [honest, honest[:120]],
        "upload": [honest[-200:-4]],
        "signature": [signed()[-72:], public],
        "job": [text, *(render_job(each()).encode() for each in (signed_job, sealed_job))],
        "kept": [kept_bytes],
        "graph": [compact, weighted],
        "partition": [split],
        "model": parts,
        "journal": [closed, refusal],
        "inspect": [honest, text, kept_bytes, compact, closed],
        "roll": [encode_record(attended)],
        "sealed": [sealed_fits()[0][1][-200:-4]],
        **tables.seeds(),
    }
