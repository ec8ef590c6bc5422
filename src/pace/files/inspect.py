"""What a file of ours is: its kind, version, digest, tensors, bytes, and whether it is sound."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pace import explain, jobfile, protocol, signatures, wire
from pace.admission import admit
from pace.data import describe as graph_facts
from pace.data import file as graph_file
from pace.disclosure import words
from pace.errors import FileError, PaceError
from pace.files import kept, model, tensors
from pace.job import SERVER, Job
from pace.journal import Journal

Facts = dict[str, Any]


def inspect(path: Path, job: Job | None = None) -> Facts:
    """What can be said of the file; with the job, also whether it is a sound part of it."""
    try:
        kind = _kind(path)
        size = path.stat().st_size if path.is_file() else _folder_size(path)
        return {"file": str(path), "bytes": size, **READERS[kind](path, job)}
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error


def _kind(path: Path) -> str:
    if path.is_dir():
        return "model" if (path / "model.json").exists() else "journal"
    with path.open("rb") as opened:
        head = opened.read(4096)
    if head.startswith(wire.MAGIC):
        return "message"
    if head.startswith(signatures.KIND.encode()) or b"PRIVATE KEY" in head:
        return "key"
    if head[8:9] == b"{":
        return "graph" if path.suffix == graph_file.SUFFIX else "tensors"
    return "json" if head[:1] == b"{" else "job"


def _message(path: Path, job: Job | None) -> Facts:
    content = path.read_bytes()
    _, version, digest, answers, count = wire.HEAD.unpack_from(content.ljust(wire.HEAD.size))
    shapes, _ = wire.read_table(content, count)
    size = wire.size(shapes)
    signed = len(content) == size + signatures.TRAILER
    frame = wire.decode(content[:size] if signed else content)
    upload = answers == wire.NOBODY
    sanity = ["complete, its checksum fits", "all numbers are finite"]
    if job is not None:
        sanity.append(_belongs(content, frame, path, job))
    return {
        "kind": "upload" if upload else "return",
        "version": version,
        "federation": digest.hex(),
        "checksum": wire.checksum(content[:size]).hex(),
        **({} if upload else {"answers": answers.hex()}),
        "frame_bytes": size,
        "signature_bytes": signatures.TRAILER if signed else 0,
        **({"signed_by": signatures.signer(content).hex()} if signed else {}),
        "tensors": _tensors(frame.message),
        "sanity": sanity,
    }


def _belongs(content: bytes, frame: wire.Frame, path: Path, job: Job) -> str:
    """Whether the job's server would take the upload, or the return is of the job."""
    try:
        if frame.answers == wire.NOBODY:
            return f"the job takes it as the upload of {admit(content, path.stem, job).name}"
        expected = wire.size(protocol.return_layout(job.federation))
        if job.signed:
            signatures.verify(
                content, job.keys[SERVER], kind=signatures.RETURN, job=job.digest, name=path.stem
            )
            content = content[: -signatures.TRAILER]
        if len(content) != expected or frame.digest != job.federation.digest:
            return "NOT of this job"
    except PaceError as error:
        return f"NOT taken ({error.code}): {error}"
    return "a return of this job"


def _tensors_file(path: Path, job: Job | None) -> Facts:
    with path.open("rb") as opened:
        content = opened.read()
    told = tensors.header(content).get("__metadata__", {}).get("pace", "{}")
    found = json.loads(told).get("format")
    if found == graph_file.FORMAT:
        return _graph(path, job)
    if found not in (kept.FORMAT, model.PARAMS):
        raise FileError(f"{path} holds tensors of format {found!r}, none of ours")
    about, values = tensors.read(path, found)
    sanity = [
        "all numbers are finite"
        if all(torch.isfinite(value.float()).all() for value in values.values())
        else "NOT all numbers are finite"
    ]
    if found == kept.FORMAT and job is not None:
        kept.read(path, job)
        sanity.append("it belongs to the job and holds its upload")
    about.pop("format")
    kind = "kept Local model" if found == kept.FORMAT else "parameters"
    return {"kind": kind, "version": found, **about, "tensors": _tensors(values), "sanity": sanity}


def _model(path: Path, job: Job | None) -> Facts:
    found = model.read(path)
    sanity = ["complete: job, Local and External fit each other"]
    if job is not None:
        mine = found.job.digest == job.digest
        sanity.append("it belongs to the job" if mine else "NOT of this job")
    about = {key: value for key, value in found.about.items() if key != "format"}
    return {
        "kind": "model folder",
        "version": model.FORMAT,
        **about,
        "tensors": _tensors(found.local),
        "sanity": sanity,
    }


def _journal(path: Path, job: Job | None) -> Facts:
    if not (path / "job.pace").is_file():
        raise FileError(f"{path} is neither a model folder nor a journal")
    book = Journal(path, jobfile.read(path / "job.pace"))
    decided = book.decision()
    return {
        "kind": "server's journal",
        "version": 1,
        "job": book.job.digest,
        "uploads": book.accepted(),
        "missing": book.job.missing(book.accepted()),
        "closed": decided is not None,
        "returns": [name for name in decided or () if book.returned(name) is not None],
        "refused": book.refusals(),
        "sanity": ["open" if decided is None else "closed: nothing is taken any more"],
    }


def _job(path: Path, job: Job | None) -> Facts:
    found = jobfile.read(path)
    return {
        "kind": "job",
        "version": found.content["format"],
        "job": found.digest,
        **explain.facts(found),
        "sanity": ["as it was made: its digest fits"],
    }


def _graph(path: Path, job: Job | None) -> Facts:
    dataset = graph_file.read(path)
    described = graph_facts.describe(dataset)
    described.pop("feature_names")
    return {
        "kind": "graph",
        "version": graph_file.FORMAT,
        **described,
        "sanity": ["complete: features finite, edges and labels in range, masks apart"],
    }


def _key(path: Path, job: Job | None) -> Facts:
    private = b"PRIVATE" in path.read_bytes()
    public = (
        signatures.public_of(signatures.load(path)) if private else signatures.read_public(path)
    )
    shared = private and path.stat().st_mode & 0o077
    return {
        "kind": "private key" if private else "public key",
        "version": "Ed25519",
        "public": public,
        "fingerprint": signatures.fingerprint(public).hex(),
        "sanity": [
            "NOT private: others on this machine can read it (chmod 600)" if shared else "sound"
        ],
    }


def _json(path: Path, job: Job | None) -> Facts:
    try:
        found = json.loads(path.read_bytes())
        kind = found["format"]
    except (ValueError, KeyError, TypeError):
        raise FileError(f"{path} is no file of ours") from None
    return {
        "kind": kind.removeprefix("pace-").rsplit("-", 1)[0],
        "version": kind,
        "sanity": ["JSON"],
    }


READERS: Mapping[str, Callable[[Path, Job | None], Facts]] = {
    "message": _message,
    "tensors": _tensors_file,
    "graph": _graph,
    "model": _model,
    "journal": _journal,
    "job": _job,
    "key": _key,
    "json": _json,
}


def _tensors(message: Mapping[str, Tensor]) -> list[Facts]:
    return [
        {
            "name": name,
            "shape": list(value.shape),
            "bytes": value.numel() * value.element_size(),
            "what": words(name),
            "min": float(value.min()) if value.numel() else None,
            "max": float(value.max()) if value.numel() else None,
            "zeros": int((value == 0).sum()),
        }
        for name, value in message.items()
        if value.dtype == torch.float32
    ]


def _folder_size(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
