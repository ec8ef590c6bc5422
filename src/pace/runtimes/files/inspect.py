"""What a file of ours is: its kind, version, digest, tensors, bytes, and whether it is sound."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from pace import jobs
from pace.datasets import describe_graph
from pace.datasets import file as graph_file
from pace.errors import FileError, PaceError, SignatureError
from pace.io import records, untrusted
from pace.jobs import Item, Job, Journal, Refusal, explain, roll, signatures
from pace.protocol import layouts, wire
from pace.runtimes.files import model
from pace.runtimes.files.merge import sender
from pace.runtimes.files.site import load_site
from pace.tables import Codebook, Proposal, read_columns

HEAD = 4096  # bytes that tell what a file is
LARGEST = 2**26  # bytes of a record or report
FORMATS = re.compile(r"pace-([a-z-]{1,40})-[0-9]{1,4}")


@dataclass(frozen=True)
class FileFacts:
    kind: str
    version: str | int
    sanity: list[str]  # what it is in a job, or that it is sound; `NOT` where it is not
    details: Mapping[str, object]
    tensors: tuple[Item, ...] = records.optional(())  # with their bytes as they were written
    refused: list[Refusal] | None = records.optional(None)  # of a journal
    file: str = ""
    bytes: int = 0


def inspect(path: Path, job: Job | None = None) -> FileFacts:
    """What can be said of the file; with the job, also whether it is a sound part of it."""
    try:
        parts = path.rglob("*") if path.is_dir() else [path]
        size = sum(part.stat().st_size for part in parts if not part.is_dir())
        facts = _reader(path)(path, job)
        return replace(facts, sanity=facts.sanity or ["sound"], file=str(path), bytes=size)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error
    except PaceError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise FileError(f"{path} is damaged, or not a file of PACE ({error})") from error


def _reader(path: Path) -> Callable[[Path, Job | None], FileFacts]:
    """What reads such a file, by its first bytes."""
    if path.is_dir():
        return _model if model.is_model(path) else _journal
    head = untrusted.read_head(path, HEAD)
    if head.startswith(wire.MAGIC):
        return _message
    if head.startswith(signatures.KIND.encode()) or b"PRIVATE KEY" in head:
        return _key
    if head[8:9] == b"{":
        is_graph = path.suffix == graph_file.SUFFIX or graph_file.FORMAT.encode() in head
        return _graph if is_graph else _tensors_file
    if head[:1] == b"{":
        return _json
    if any(f'format = "{name}"'.encode() in head for name in (Codebook.FORMAT, Proposal.FORMAT)):
        return _codebook
    if path.suffix == jobs.JOB_SUFFIX or jobs.job.FORMAT.encode() in head:
        return _job
    raise FileError(f"{path} is not a file of PACE")


def _tensors_file(path: Path, job: Job | None) -> FileFacts:
    about, values = model.read_tensors(path, model.KEPT, model.PARAMS)
    finite = all(torch.isfinite(value.float()).all() for value in values.values())
    sanity = [] if finite else ["NOT all numbers are finite"]
    is_kept = (version := about.pop("format")) == model.KEPT
    if is_kept and job is not None:
        sanity.append(_checked("it belongs to the job", model.read_kept, path, job))
    kind = "kept Local model" if is_kept else "parameters"
    params = {name: value for name, value in values.items() if value.dtype == torch.float32}
    return FileFacts(kind, version, sanity, about, _sizes(wire.layout(params)))


def _model(path: Path, job: Job | None) -> FileFacts:
    adopted = model.read_model(path)
    details = records.plain_record(adopted.outcome)
    sanity, tensors = _belongs_to(job, adopted.job), _sizes(wire.layout(adopted.local))
    return FileFacts("model folder", details.pop("format"), sanity, details, tensors)


def _journal(path: Path, job: Job | None) -> FileFacts:
    if not (path / "job.pace").is_file():
        raise FileError(f"{path} is neither a model folder nor a journal")
    book = Journal(path, jobs.newest_job(path, jobs.read_job(path / "job.pace")))
    decided, uploads = book.decision(), book.accepted()
    details = {
        "job": book.job.digest,
        "edition": book.job.number,
        "uploads": uploads,
        "missing": book.job.missing(uploads),
        "closed": decided is not None,
        "returns": [name for name in decided or () if book.has_return(name)],
    }
    sanity = _belongs_to(job, book.job)
    return FileFacts("server's journal", 1, sanity, details, refused=book.refusals())


def _job(path: Path, job: Job | None) -> FileFacts:
    own = jobs.read_job(path)
    details = {"job": own.digest, **explain.job_facts(own)}
    return FileFacts("job", own.content["format"], _belongs_to(job, own), details)


def _belongs_to(job: Job | None, own: Job) -> list[str]:
    """Whether a file's own job is the one it is checked against."""
    if job is None:
        return []
    return ["it belongs to the job" if own.digest == job.digest else "NOT of this job"]


def _graph(path: Path, job: Job | None) -> FileFacts:
    sanity = [] if job is None else [_checked("it can take part", load_site, path, job)]
    details = describe_graph(graph_file.read_graph(path))
    return FileFacts("graph", graph_file.FORMAT, sanity, details)


def _checked(words: str, check: Callable[..., object], *given: object) -> str:
    """The words, or why the file is no part of a job."""
    try:
        check(*given)
    except PaceError as error:
        return f"NOT of this job ({error.code}): {error}"
    return words


def _codebook(path: Path, job: Job | None) -> FileFacts:
    """The facts of a codebook, or of a site's proposal of one."""
    of = read_columns(path, Proposal, Codebook)
    kind, sanity = "a site's proposal of columns", []
    if isinstance(of, Codebook):
        own = "it is the job's" if job and job.codebook == of else "NOT the job's codebook"
        kind, sanity = "codebook", [own] if job else []
    columns = {column.name: column.kind for column in of.columns}
    return FileFacts(kind, of.FORMAT, sanity, {"columns": columns})


def _key(path: Path, job: Job | None) -> FileFacts:
    if private := b"PRIVATE" in untrusted.read(path, signatures.LARGEST):
        public = signatures.public_key(signatures.load_key(path))
    else:
        public = signatures.read_public_key(path)
    shared = private and path.stat().st_mode & 0o077
    sanity = ["NOT private: others on this machine can read it (chmod 600)"] if shared else []
    if job is not None:
        owners = [name for name, key in job.keys.items() if key == public]
        sanity += [f"the job's key of {name}" for name in owners] or ["NOT among the job's keys"]
    details = {"public": public, "fingerprint": signatures.fingerprint(public).hex()}
    return FileFacts("private key" if private else "public key", "Ed25519", sanity, details)


def _json(path: Path, job: Job | None) -> FileFacts:
    """A record, of which a signed one is shown whole; of a report only the format."""
    content = untrusted.read(path, LARGEST)
    try:
        record, signed = untrusted.json(content), False
    except ValueError:
        record, signed = untrusted.json(content[: -signatures.TRAILER]), True
    match = FORMATS.fullmatch(str(record.get("format")))
    if match is None:
        raise FileError(f"{path} is not a file of PACE")
    kind, details, sanity = match[1], {}, []
    if signed or kind == "roll":
        details = {key: value for key, value in record.items() if key != "format"}
        by = f"signed by key {signatures.signer(content).hex()}" if signed else "not signed"
        sanity = [by if job is None else _signed_record(kind, record, content, path, job)]
    return FileFacts(kind, match[0], sanity, details)


def _signed_record(kind: str, record: dict[str, str], content: bytes, path: Path, job: Job) -> str:
    """Whether a roll, an edition, a withdrawal or a certificate is of this job, and whose word."""
    words = f"{'signed by the server' if job.signed else 'not signed'}, for this job"
    if kind == "roll":
        return _checked(words, roll.read_roll, content, job, str(record.get("receiver")))
    if kind == "edition":
        return _checked(words, jobs.read_edition, path, job)
    name = str(record.get("name"))
    if kind == "withdrawal":
        signed = f"signed by {name}, for this job"
        return _checked(signed, jobs.editions.read_withdrawal, path, job)
    verify = partial(signatures.verify, kind=kind, job=job.digest, name=name)
    return _checked(words, verify, content, job.keys.get(jobs.SERVER, ""))


def _message(path: Path, job: Job | None) -> FileFacts:
    """The facts of a message; with the job, whether it is one of its messages."""
    head = untrusted.read_head(path, wire.LONGEST_OPENING).ljust(wire.HEAD.size)
    _, version, digest, answers, count = wire.HEAD.unpack_from(head)
    shapes, _ = wire.read_table(head, count)
    upload, size = answers == wire.NOBODY, shapes.size
    content = untrusted.read(path, min(size + signatures.TRAILER, model.LARGEST))
    signed = len(content) == size + signatures.TRAILER
    frame = wire.decode(content[:size] if signed else content)
    sanity = [] if job is None else [_belongs(content, frame, path, job)]
    details = {
        "numbers": shapes.numbers,
        "federation": digest.hex(),
        "checksum": wire.checksum(content[:size]).hex(),
        "answers": None if upload else answers.hex(),
        "frame_bytes": size,
        "signature_bytes": signatures.TRAILER if signed else 0,
        "signed_by": signatures.signer(content).hex() if signed else None,
    }
    details = {name: fact for name, fact in details.items() if fact is not None}
    return FileFacts("upload" if upload else "return", version, sanity, details, _sizes(shapes))


def _belongs(content: bytes, frame: wire.Frame, path: Path, job: Job) -> str:
    """Whether the job's server would take the upload, or the return is of the job, and whose."""
    try:
        if frame.answers == wire.NOBODY:
            owner = jobs.admit(content, sender(path), job).name
            return f"the job takes it as the upload of {owner}"
        size = jobs.exact_size(job, layouts.return_layout)
        if len(content) != size or frame.digest != job.federation.digest:
            return "NOT of this job"
        if not job.signed:
            return "a return of this job"
        server, kind = job.keys[jobs.SERVER], signatures.RETURN
        for name in job.participants:  # its file may have any name
            with suppress(SignatureError):
                signatures.verify(content, server, kind=kind, job=job.digest, name=name)
                return f"a return of this job, to {name}"
        raise SignatureError("the job's server did not sign it for a participant")
    except PaceError as error:
        return f"NOT taken ({error.code}): {error}"


def _sizes(shapes: wire.Layout) -> tuple[Item, ...]:
    return tuple(map(Item, shapes, shapes.values(), shapes.lengths))
