"""A job in words: what each participant agrees to by taking part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pace import params
from pace.jobs import signatures
from pace.jobs.job import Job
from pace.models import in_words
from pace.protocol import steps, wire
from pace.tables.codebook import Codebook

LISTED = 12
WRITTEN = {
    "float32": "as float32",
    "float16": "as float16, rounded to three or four digits",
    "int8": "as int8, matrices in 255 steps a row or column and the rest in float16",
}
SEALED = "pairwise masks: the server sees sums over all participants, and nothing if one is missing"
FIXED = ("name", "code", "rank")  # of a method, said in words of their own
Facts = dict[str, str]


def sizes(job: Job) -> dict[str, int]:
    """Bytes of every client's messages: they are known before anybody trains."""
    federation = job.federation
    return {
        "upload_frame": wire.size(steps.upload_layout(federation)),
        "return_frame": wire.size(steps.return_layout(federation)),
        "signature": signatures.TRAILER if job.signed else 0,
        "dense_model": params.size(federation.start),
    }


def plain(job: Job) -> dict[str, object]:
    """All of it as data."""
    digests = {"digest": job.digest, "federation": job.federation.digest.hex()}
    return {**job.content, **digests, "bytes": sizes(job)}


def facts(job: Job) -> Facts:
    """Line by line, for people."""
    recipe, bytes_ = job.federation.recipe, sizes(job)
    hidden = ", ".join(map(str, job.model.widths[1:-1])) or "none"
    ways = {way: bytes_[f"{way}_frame"] for way in ("upload", "return")}
    cost = ", ".join(
        f"{way} {size:,} bytes ({100 * size / bytes_['dense_model']:.1f}% of a dense model)"
        for way, size in ways.items()
    )
    signature = f"; {bytes_['signature']} more for each signature" if job.signed else ""
    named = [
        f"{kind} in order: {listed(names)}"
        for kind, names in (("classes", job.classes), ("features", job.features))
        if names
    ]
    return {
        "digest": grouped(job.digest[:32]) + " …",
        "in messages": job.federation.digest.hex(),
        "model": f"{job.model.title}, {job.model.features:,} features, hidden widths {hidden}, "
        f"{job.model.classes} classes{in_words(job.model)}",
        "start": f"W_0 from seed {job.seed}, the same at every site",
        "training": f"{recipe.epochs} full-batch steps of {recipe.optimiser}, rate {recipe.rate}, "
        f"weight decay {recipe.decay}",
        "method": _method(job),
        "sent": f"once each way, {written(job)}: {cost}{signature}",
        "taking part": listed(job.participants) or "anybody who has this file",
        "merged when": f"{job.minimum} uploads are here; later ones are refused",
        "signatures": "Ed25519, every upload and every return"
        if job.signed
        else "none: the server tells uploads apart by their file names",
        **({"sealing": SEALED} if job.sealed else {}),
        **({"names": "; ".join(named)} if named else {}),
        **({} if job.codebook is None else {"codebook": _codebook(job.codebook)}),
    }


def advice(job: Job) -> list[str]:
    """What whoever makes the job may want to change: factors that cost more than what they stand for."""
    bytes_ = sizes(job)
    if job.sealed or job.rank is None or "rank" not in job.content["method"]:
        return []
    if bytes_["upload_frame"] < bytes_["dense_model"]:
        return []
    smaller = next(
        (rank for rank in range(job.rank - 1, 0, -1) if _upload(job, rank) < bytes_["dense_model"]),
        None,
    )
    dense = 100 * _upload(job, None) / bytes_["dense_model"]
    said = (
        f"the model is small: an upload of rank {job.rank} costs "
        f"{100 * bytes_['upload_frame'] / bytes_['dense_model']:.0f}% of it, --rank dense costs "
        f"{dense:.0f}% and rounds nothing off"
    )
    if smaller is not None:
        share = 100 * _upload(job, smaller) / bytes_["dense_model"]
        said += f"; --rank {smaller} costs {share:.0f}%"
    return [said]


def _upload(job: Job, rank: int | None) -> int:
    return wire.size(steps.upload_layout(replace(job, rank=rank).federation))


def _method(job: Job) -> str:
    """`fedprox, mu 0.1`; of code that is not built in, also which."""
    told = job.content["method"]
    settings = "".join(f", {key} {_said(value)}" for key, value in told.items() if key not in FIXED)
    rank = ranked(job.rank) if "rank" in told else ""
    code = f" (code of its own, SHA-256 {told['code']} …)" if "code" in told else ""
    return f"{job.method}{code}{rank}{settings}"


def _said(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)


def written(job: Job) -> str:
    """How numbers are written, either way."""
    return f"uploads sealed, returns {WRITTEN[job.numbers]}" if job.sealed else WRITTEN[job.numbers]


def ranked(rank: int | None) -> str:
    return ", dense messages" if rank is None else f", factors of rank {rank}"


def _codebook(book: Codebook) -> str:
    scaled = [column.name for column in book.columns if (column.centre, column.scale) != (0, 1)]
    columns = f"{len(book.columns):,} columns become {len(book.features):,} features"
    return (
        f"{columns}; scaled: {listed(tuple(scaled)) or 'none'}; `pace codebook show` lists it, "
        "`pace graph import --job` applies it"
    )


def listed(names: tuple[str, ...]) -> str:
    more = f", … ({len(names):,} in all)" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def grouped(digits: str) -> str:
    """`3f9a 11c0 …`: to be read out on the telephone."""
    return " ".join(digits[place : place + 4] for place in range(0, len(digits), 4))
