"""What a file of ours is: its kind, version, digest, tensors, bytes, and whether it is sound."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from pace.datasets import describe as graph_facts
from pace.datasets import file as graph_file
from pace.errors import FileError, PaceError
from pace.io import records, regular
from pace.jobs import explain, job_file, signatures
from pace.jobs.job import FORMAT, Job
from pace.jobs.journal import Journal
from pace.protocol import wire
from pace.runtimes.files import kept, model, site, tensors
from pace.runtimes.files.messages import Facts, message
from pace.runtimes.files.messages import tensors as listed
from pace.tables.codebook import CODEBOOK_FORMAT, read_codebook
from pace.tables.proposal import PROPOSAL_FORMAT, proposal_discloses, read_proposal

TABLES = {"codebook": CODEBOOK_FORMAT, "proposal": PROPOSAL_FORMAT}  # TOML of ours beside jobs
HEAD = 4096  # bytes that tell what a file is
JSON_FORMAT = re.compile(rb'"format": ?"pace-([a-z-]{1,40})-([0-9]{1,4})"')


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
        return "model" if model.is_one(path) else "journal"
    head = regular.read_head(path, HEAD)
    if head.startswith(wire.MAGIC):
        return "message"
    if head.startswith(signatures.KIND.encode()) or b"PRIVATE KEY" in head:
        return "key"
    if head[8:9] == b"{":
        return "graph" if path.suffix == graph_file.SUFFIX else "tensors"
    if head[:1] == b"{":
        return "json"
    for kind, words in TABLES.items():
        if f'format = "{words}"'.encode() in head:
            return kind
    if path.suffix != job_file.SUFFIX and FORMAT.encode() not in head:
        raise FileError(f"{path} is not a file of PACE")
    return "job"


def _tensors_file(path: Path, job: Job | None) -> Facts:
    found = tensors.about(path).get("format")
    if found == graph_file.FORMAT:
        return _graph(path, job)
    if found not in (kept.FORMAT, model.PARAMS):
        raise FileError(f"{path} holds tensors of format {found!r}, which is not one of ours")
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
    return Facts(
        kind="kept Local model" if found == kept.FORMAT else "parameters",
        version=found,
        details=about,
        tensors=listed(values),
        sanity=tuple(sanity),
    )


def _model(path: Path, job: Job | None) -> Facts:
    found = model.read(path)
    sanity = ["complete: job, Local and External fit each other"]
    return Facts(
        kind="model folder",
        version=model.FORMAT,
        details={"job": found.job.digest, **records.plain_record(found.about)},
        tensors=listed(found.local),
        sanity=(*sanity, *_of(job, found.job)),
    )


def _journal(path: Path, job: Job | None) -> Facts:
    if not (path / "job.pace").is_file():
        raise FileError(f"{path} is neither a model folder nor a journal")
    book = Journal(path, job_file.read(path / "job.pace"))
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
            *_of(job, book.job),
        ),
    )


def _job(path: Path, job: Job | None) -> Facts:
    found = job_file.read(path)
    return Facts(
        kind="job",
        version=found.content["format"],
        details={"job": found.digest, **explain.facts(found)},
        sanity=("as it was made: its digest fits", *_of(job, found)),
    )


def _of(job: Job | None, found: Job) -> list[str]:
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
            site.load(path, job)
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
        signatures.public_of(signatures.load(path)) if private else signatures.read_public(path)
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


READERS: Mapping[str, Callable[[Path, Job | None], Facts]] = {
    "message": message,
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
