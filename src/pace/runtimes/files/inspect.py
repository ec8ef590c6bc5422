"""What a file of ours is: its kind, version, digest, tensors, bytes, and whether it is sound."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from pace.datasets import describe as graph_facts
from pace.datasets import file as graph_file
from pace.errors import FileError, PaceError, SignatureError
from pace.io import records, regular
from pace.jobs import explain, signatures
from pace.jobs.admission import admit
from pace.jobs.disclosure import any_tensor_sentence
from pace.jobs.job import FORMAT, SERVER, Job
from pace.jobs.job_file import JOB_SUFFIX, read_job
from pace.jobs.journal import Journal, PastRefusal
from pace.protocol import number_formats, ring, steps, wire
from pace.runtimes.files import kept, model
from pace.runtimes.files.intake import sender
from pace.runtimes.files.site import load_site
from pace.runtimes.files.tensors import LARGEST, read_about, read_tensors
from pace.tables.codebook import CODEBOOK_FORMAT, read_codebook
from pace.tables.proposal import PROPOSAL_FORMAT, proposal_discloses, read_proposal

TABLES = {"codebook": CODEBOOK_FORMAT, "proposal": PROPOSAL_FORMAT}  # TOML of ours beside jobs
HEAD = 4096  # bytes that tell what a file is
JSON_FORMAT = re.compile(rb'"format": ?"pace-([a-z-]{1,40})-([0-9]{1,4})"')


@dataclass(frozen=True)
class TensorFacts:
    """One tensor of a file."""

    name: str
    shape: tuple[int, ...]
    bytes: int
    """As they were written."""
    what: str
    """What it is, in words."""
    min: float | None
    """None where it is empty or sealed."""
    max: float | None
    zeros: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What can be said of a file."""

    kind: str
    version: str | int
    details: dict[str, object] = field(default_factory=dict, metadata=records.REST)
    """What only this kind of file has."""
    tensors: tuple[TensorFacts, ...] = field(default=(), metadata=records.OPTIONAL)
    refused: tuple[PastRefusal, ...] | None = field(default=None, metadata=records.OPTIONAL)
    """Of a journal."""
    sanity: tuple[str, ...]
    """Whether it is sound, in words; `NOT` where it is not."""


@dataclass(frozen=True)
class Inspected:
    """A file or folder of ours, and what can be said of it."""

    file: str
    bytes: int
    facts: Facts

    def plain(self) -> dict[str, object]:
        """As JSON has it, all side by side."""
        return {"file": self.file, "bytes": self.bytes, **records.plain_record(self.facts)}


def inspect(path: Path, job: Job | None = None) -> Inspected:
    """What can be said of the file; with the job, also whether it is a sound part of it."""
    try:
        kind = _kind(path)
        size = path.stat().st_size if path.is_file() else _folder_size(path)
        return Inspected(str(path), size, READERS[kind](path, job))
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error
    except PaceError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise FileError(f"{path} is damaged, or not a file of PACE ({error})") from error


def _kind(path: Path) -> str:
    if path.is_dir():
        return "model" if model.is_model(path) else "journal"
    head = regular.read_head(path, HEAD)
    if head.startswith(wire.MAGIC):
        return "message"
    if head.startswith(signatures.KIND.encode()) or b"PRIVATE KEY" in head:
        return "key"
    if head[8:9] == b"{":
        return "graph" if path.suffix == graph_file.SUFFIX else "tensors"
    if head[:1] == b"{":
        return "json"
    for kind, version in TABLES.items():
        if f'format = "{version}"'.encode() in head:
            return kind
    if path.suffix != JOB_SUFFIX and FORMAT.encode() not in head:
        raise FileError(f"{path} is not a file of PACE")
    return "job"


def _tensors_file(path: Path, job: Job | None) -> Facts:
    found = read_about(path).get("format")
    if found == graph_file.FORMAT:
        return _graph(path, job)
    if found not in (kept.FORMAT, model.PARAMS):
        raise FileError(f"{path} holds tensors of format {found!r}, which is not one of ours")
    about, values = read_tensors(path, found)
    sanity = [
        "all numbers are finite"
        if all(torch.isfinite(value.float()).all() for value in values.values())
        else "NOT all numbers are finite"
    ]
    if found == kept.FORMAT and job is not None:
        kept.read_kept(path, job)
        sanity.append("it belongs to the job and holds its upload")
    about.pop("format")
    return Facts(
        kind="kept Local model" if found == kept.FORMAT else "parameters",
        version=found,
        details=about,
        tensors=_tensor_facts(values),
        sanity=tuple(sanity),
    )


def _model(path: Path, job: Job | None) -> Facts:
    found = model.read_model(path)
    sanity = ["complete: job, Local and External fit each other"]
    return Facts(
        kind="model folder",
        version=found.outcome.format,
        details=records.plain_record(found.outcome),
        tensors=_tensor_facts(found.local),
        sanity=(*sanity, *_belongs_to(job, found.job)),
    )


def _journal(path: Path, job: Job | None) -> Facts:
    if not (path / "job.pace").is_file():
        raise FileError(f"{path} is neither a model folder nor a journal")
    book = Journal(path, read_job(path / "job.pace"))
    decided = book.decision()
    return Facts(
        kind="server's journal",
        version=1,
        details={
            "job": book.job.digest,
            "uploads": book.accepted(),
            "missing": book.job.missing(book.accepted()),
            "closed": decided is not None,
            "returns": [name for name in decided or () if book.has_return(name)],
        },
        refused=tuple(book.refusals()),
        sanity=(
            "open" if decided is None else "closed: nothing is taken any more",
            *_belongs_to(job, book.job),
        ),
    )


def _job(path: Path, job: Job | None) -> Facts:
    found = read_job(path)
    return Facts(
        kind="job",
        version=found.content["format"],
        details={"job": found.digest, **explain.job_facts(found)},
        sanity=("as it was made: its digest fits", *_belongs_to(job, found)),
    )


def _belongs_to(job: Job | None, found: Job) -> list[str]:
    """Whether what was found is of the job it was to be checked against."""
    if job is None:
        return []
    return ["it belongs to the job" if found.digest == job.digest else "NOT of this job"]


def _graph(path: Path, job: Job | None) -> Facts:
    dataset = graph_file.read(path)
    described = records.plain_record(graph_facts.describe(dataset))
    described.pop("feature_names")
    sanity = ["complete: features finite, edges and labels in range, masks apart"]
    if job is not None:
        try:
            load_site(path, job)
            sanity.append("it can take part in the job")
        except PaceError as error:
            sanity.append(f"NOT for this job ({error.code}): {error}")
    return Facts(kind="graph", version=graph_file.FORMAT, details=described, sanity=tuple(sanity))


def _codebook(path: Path, job: Job | None) -> Facts:
    book = read_codebook(path)
    sanity = ["it can be used: `pace new --codebook`"]
    if job is not None:
        same = job.codebook is not None and job.codebook.plain() == book.plain()
        sanity.append("it is the job's" if same else "NOT the job's codebook")
    return Facts(
        kind="codebook",
        version=CODEBOOK_FORMAT,
        details={
            "label": book.label,
            "id": book.id,
            "classes": list(book.classes),
            "columns": {column.name: column.kind for column in book.columns},
            "features": len(book.features),
            "edges": _edges(book.weight, book.directions),
        },
        sanity=tuple(sanity),
    )


def _proposal(path: Path, job: Job | None) -> Facts:
    found = read_proposal(path)
    return Facts(
        kind="a site's proposal of columns",
        version=PROPOSAL_FORMAT,
        details={
            "label": found.label,
            "id": found.id,
            "rows": found.rows,
            "classes": list(found.classes),
            "columns": {column.name: column.kind for column in found.columns},
            "edges": _edges(found.weight, found.directions),
            "discloses": proposal_discloses(found),
        },
        sanity=("sound: `pace codebook merge` can read it", "it holds no row"),
    )


def _edges(weight: str, directions: str) -> str:
    return f"weights in {weight!r}, " * bool(weight) + f"directions {directions}"


def _key(path: Path, job: Job | None) -> Facts:
    private = b"PRIVATE" in regular.read(path, signatures.LARGEST)
    public = (
        signatures.public_key(signatures.load_key(path))
        if private
        else signatures.read_public_key(path)
    )
    shared = private and path.stat().st_mode & 0o077
    sanity = ["NOT private: others on this machine can read it (chmod 600)" if shared else "sound"]
    if job is not None:
        whose = [name for name, key in job.keys.items() if key == public]
        sanity += [f"the job's key of {name}" for name in whose] or ["NOT among the job's keys"]
    return Facts(
        kind="private key" if private else "public key",
        version="Ed25519",
        details={"public": public, "fingerprint": signatures.fingerprint(public).hex()},
        sanity=tuple(sanity),
    )


def _json(path: Path, job: Job | None) -> Facts:
    """Only its format is shown, so only the beginning is read."""
    found = JSON_FORMAT.search(regular.read_head(path, HEAD))
    if found is None:
        raise FileError(f"{path} is not a file of PACE")
    kind, version = found[1].decode(), found[2].decode()
    return Facts(
        kind=kind,
        version=f"pace-{kind}-{version}",
        sanity=("JSON by its first lines; the rest was not read",),
    )


def _message(path: Path, job: Job | None) -> Facts:
    """The facts of a message; with the job, whether it is one of its messages."""
    head = regular.read_head(path, wire.LONGEST_OPENING).ljust(wire.HEAD.size)
    _, version, digest, answers, count = wire.HEAD.unpack_from(head)
    shapes, _ = wire.read_table(head, count)
    size = wire.size(shapes)
    content = regular.read(path, min(size + signatures.TRAILER, LARGEST))
    signed = len(content) == size + signatures.TRAILER
    frame = wire.decode(content[:size] if signed else content)
    upload = answers == wire.NOBODY
    sealed = shapes.numbers == wire.SEALED
    found = "its numbers are sealed" if sealed else "all numbers are finite"
    sanity = ["complete, its checksum fits", found]
    if job is not None:
        sanity.append(_belongs(content, frame, path, job))
    return Facts(
        kind="upload" if upload else "return",
        version=version,
        details={
            "numbers": shapes.numbers,
            "federation": digest.hex(),
            "checksum": wire.checksum(content[:size]).hex(),
            **({} if upload else {"answers": answers.hex()}),
            "frame_bytes": size,
            "signature_bytes": signatures.TRAILER if signed else 0,
            **({"signed_by": signatures.signer(content).hex()} if signed else {}),
        },
        tensors=_sealed(shapes) if sealed else _tensor_facts(frame.message, shapes.numbers),
        sanity=tuple(sanity),
    )


def _belongs(content: bytes, frame: wire.Frame, path: Path, job: Job) -> str:
    """Whether the job's server would take the upload, or the return is of the job."""
    try:
        if frame.answers == wire.NOBODY:
            return f"the job takes it as the upload of {admit(content, sender(path), job).name}"
        trailer = signatures.TRAILER if job.signed else 0
        expected = wire.size(steps.return_layout(job.federation)) + trailer
        if len(content) != expected or frame.digest != job.federation.digest:
            return "NOT of this job"
        return f"a return of this job{_receiver(content, job)}"
    except PaceError as error:
        return f"NOT taken ({error.code}): {error}"


def _receiver(content: bytes, job: Job) -> str:
    """To whom a signed return goes; its file may have any name."""
    if not job.signed:
        return ""
    for name in job.participants:
        try:
            signatures.verify(
                content, job.keys[SERVER], kind=signatures.RETURN, job=job.digest, name=name
            )
        except SignatureError as error:
            last = error
        else:
            return f", to {name}"
    raise last


def _sealed(shapes: wire.Layout) -> tuple[TensorFacts, ...]:
    """Of sealed tensors nothing but their shapes can be said."""
    return tuple(
        TensorFacts(name, tuple(shape), ring.NUMBER * volume, "sealed", None, None, 0)
        for (name, shape), volume in zip(shapes.items(), shapes.volumes, strict=True)
    )


def _tensor_facts(
    message: Mapping[str, Tensor], numbers: str = "float32"
) -> tuple[TensorFacts, ...]:
    """A line for each tensor of numbers, with its bytes as they were written."""
    update = any("/" in name for name in message)  # factors or moments: PACE's
    return tuple(
        TensorFacts(
            name,
            tuple(value.shape),
            number_formats.size(tuple(value.shape), numbers),
            any_tensor_sentence(name, update=update),
            float(value.min()) if value.numel() else None,
            float(value.max()) if value.numel() else None,
            int((value == 0).sum()),
        )
        for name, value in message.items()
        if value.dtype == torch.float32
    )


READERS: Mapping[str, Callable[[Path, Job | None], Facts]] = {
    "message": _message,
    "tensors": _tensors_file,
    "graph": _graph,
    "model": _model,
    "journal": _journal,
    "job": _job,
    "codebook": _codebook,
    "proposal": _proposal,
    "key": _key,
    "json": _json,
}


def _folder_size(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
