"""What reads bytes from outside, as functions of bytes: each ends, or raises a `PaceError`.

`SEEDS` are valid inputs to begin from. Readers of files get one in a folder in memory.
"""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch

from pace.data import Dataset, Names
from pace.data import file as graph_file
from pace.data.synthetic import Synthetic, synthetic
from pace.errors import PaceError
from pace.graph import Graph
from pace.io import atomic
from pace.jobs import job_file, signatures
from pace.jobs.admission import admit
from pace.jobs.job import SERVER, Job
from pace.jobs.journal import Journal
from pace.models.gcn import GCN
from pace.partition import file as partition_file
from pace.partition.divide import Division, division
from pace.protocol import steps, wire
from pace.runtimes.files import kept, model, tensors
from pace.runtimes.files.inspect import inspect

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
FOLDER = Path(tempfile.mkdtemp(prefix="pace-fuzz-", dir=MEMORY))
MODEL_FILES = ("model.json", "job.pace", "local.safetensors", "external.safetensors")


@cache
def dataset() -> Dataset:
    made = synthetic(Synthetic(nodes=24, classes=2, features=8, communities=2, words=3))
    names = Names(classes=("a", "b"), nodes=tuple(f"n{i}" for i in range(24)))
    return Dataset("tiny", made, 2, names=names)


@cache
def divided() -> Division:
    return division(dataset(), "louvain", 2)


@cache
def graph() -> Graph:
    return divided().graphs[0]


@cache
def job() -> Job:
    return Job("tiny", GCN((8, 8, 2)), epochs=1, participants=("north", "south"), nonce="0" * 32)


@cache
def signed_job() -> Job:
    public = {name: signatures.public_of(key(name)) for name in ("north", "south", SERVER)}
    names = ("north", "south")
    return Job("tiny", GCN((8, 8, 2)), epochs=1, participants=names, keys=public, nonce="0" * 32)


@cache
def key(name: str) -> signatures.Key:
    path = FOLDER / f"{name}.key"
    signatures.new(path, FOLDER / f"{name}.pub")
    return signatures.load(path)


@cache
def fitted() -> tuple[steps.Kept, bytes]:
    return steps.fit(graph(), job().federation)


@cache
def signed() -> bytes:
    frame = steps.fit(graph(), signed_job().federation)[1]
    return signatures.sign(
        frame, key("north"), kind=signatures.UPLOAD, job=signed_job().digest, name="north"
    )


@cache
def model_folder() -> Path:
    folder = FOLDER / "whole.model"
    local = fitted()[0].local
    about = {"format": model.FORMAT, "job": job().digest, "alpha": 0.5}
    files = {
        f"{which}.safetensors": tensors.encode(
            local, {"format": model.PARAMS, "which": which, "job": job().digest}
        )
        for which in ("local", "external")
    }
    files |= {"model.json": json.dumps(about).encode(), "job.pace": job_file.render(job()).encode()}
    atomic.folder(folder, files)
    return folder


def placed(data: bytes, name: str) -> Path:
    path = FOLDER / name
    with open(path, "wb", buffering=0) as opened:
        opened.write(data)
    return path


def resealed(data: bytes) -> bytes:
    """The same bytes with a right checksum, which no mutation would find."""
    body = data[: -wire.CHECKSUM]
    return body + zlib.crc32(body).to_bytes(wire.CHECKSUM, "little")


def frame(data: bytes) -> None:
    """Any bytes, as they are and with a right checksum, with sizes known and unknown."""
    layout = steps.upload_layout(job().federation)
    for each in (data, resealed(data)):
        for expected in (None, layout):
            _quiet(wire.decode, each, expected)


def upload(data: bytes) -> None:
    """An honest upload with `data` written over its tail, so that sizes always fit."""
    honest = fitted()[1]
    body = (honest[: -wire.CHECKSUM - len(data)] + data)[: len(honest) - wire.CHECKSUM]
    _quiet(admit, resealed(body.ljust(len(honest), b"\0")), "north", job())


def signature(data: bytes) -> None:
    """A signed upload with `data` over its trailer; then keys."""
    content = signed()
    _quiet(admit, (content[: len(content) - len(data)] + data)[-len(content) :], "x", signed_job())
    path = placed(data, "a.pub")
    _quiet(signatures.read_public, path)
    _quiet(signatures.load, path)


def job_text(data: bytes) -> None:
    _quiet(job_file.read, placed(data, "a.pace"))


def kept_file(data: bytes) -> None:
    _quiet(kept.read, placed(data, "a.local"), job())


def graph_reader(data: bytes) -> None:
    _quiet(graph_file.read, placed(data, "a.graph"))


def partition(data: bytes) -> None:
    _quiet(partition_file.read_division, placed(data, "a.json"), dataset())


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
    _quiet(model.read, folder)


def journal(data: bytes) -> None:
    """A decision, and a refusal, that rotted."""
    folder = FOLDER / "a.journal"
    if not folder.exists():
        Journal.open(folder, job())
    (folder / "closed.json").write_bytes(data)
    (folder / "refused" / "a.json").write_bytes(data)
    book = Journal(folder, job())
    _quiet(book.decision)
    _quiet(book.refusals)


def inspected(data: bytes) -> None:
    """`pace inspect` decides by the bytes which reader they get."""
    _quiet(inspect, placed(data, "a"))


def _quiet(call: Callable[..., object], *given: object) -> None:
    try:
        call(*given)
    except PaceError:
        return


def _file(write: Callable[[Path], None]) -> bytes:
    path = FOLDER / f"seed-{len(os.listdir(FOLDER))}"
    write(path)
    return path.read_bytes()


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
}


def seeds() -> dict[str, list[bytes]]:
    """Valid inputs of each target."""
    torch.set_num_threads(1)
    honest = fitted()[1]
    trained = kept.Trained("north", "0", "2026-01-01T00:00:00+00:00", 1.0, "cpu", {})
    kept_bytes = kept.KeptFile(fitted()[0], honest, trained).encode(job())
    compact = _file(lambda path: graph_file.write(path, dataset()))
    split = _file(
        lambda path: partition_file.write(
            path, dataset(), divided(), partition="louvain", data_seed=1
        )
    )
    text = job_file.render(job()).encode()
    parts = [
        bytes([place]) + (model_folder() / name).read_bytes()
        for place, name in enumerate(MODEL_FILES)
    ]
    closed = json.dumps({"job": job().digest, "uploads": {"north": "0" * 64}}).encode()
    refusal = json.dumps({"sender": "a", "sha256": None, "code": "size", "reason": "b"}).encode()
    public = (FOLDER / "north.pub").read_bytes() if signed() else b""
    return {
        "frame": [honest, honest[:120]],
        "upload": [honest[-200:-4]],
        "signature": [signed()[-72:], public],
        "job": [text, job_file.render(signed_job()).encode()],
        "kept": [kept_bytes],
        "graph": [compact],
        "partition": [split],
        "model": parts,
        "journal": [closed, refusal],
        "inspect": [honest, text, kept_bytes, compact, closed],
    }
