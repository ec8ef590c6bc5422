"""`pace inspect`: what is this file?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pace.cli.given import Allow, As_json

if TYPE_CHECKING:
    from pace.runtimes.files.inspect import TensorFacts

EXAMPLES = """
Examples:

  pace inspect mine.up

  pace inspect mine.up --job job.pace

  pace inspect mine.model --json

  pace inspect codebook.toml
"""


def inspect(
    file: Annotated[
        Path, typer.Argument(help="A job, graph, codebook, message, model, key or journal.")
    ],
    job: Annotated[
        Path | None, typer.Option(help="Also check the file against this job.", metavar="FILE")
    ] = None,
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Explain any file of ours: kind, version, digest, tensors, bytes, sanity."""
    from pace.cli import console
    from pace.cli.client import show_scores
    from pace.io import records
    from pace.jobs.job import read_job
    from pace.runtimes.files import report
    from pace.runtimes.files.inspect import inspect as look
    from pace.runtimes.files.outcome import MaskScores

    found = look(file, None if job is None else read_job(job))
    if as_json:
        console.one_object(records.plain_record(found))
        return
    to = console.console()
    told: dict[str, object] = {
        "bytes": found.bytes,
        "kind": found.kind,
        "version": found.version,
        **found.details,
    }
    told.pop("sent", None)
    scores = [told.pop(mask, None) for mask in ("validation", "test")]
    console.facts(found.file, {key: said(value) for key, value in told.items()}, to)
    if found.tensors:
        heads = ["Tensor", "Shape", "Bytes", "Min", "Max", "Zeros", "What it is"]
        console.table("", heads, [row(tensor) for tensor in found.tensors], to)
    if found.refused:
        report.refused_table(f"Refused: {len(found.refused)}", found.refused).show(to)
    for mask in filter(None, scores):
        show_scores(records.read_record(MaskScores, mask), to)
    for sentence in found.sanity:
        to.print(f"Sanity: {sentence}")


def row(tensor: TensorFacts) -> list[str]:
    ends = ["-" if end is None else f"{end:.3g}" for end in (tensor.min, tensor.max)]
    shape = " × ".join(map(str, tensor.shape))
    return [
        tensor.name, shape, f"{tensor.bytes:,}", *ends, f"{tensor.zeros:,}", tensor.words
    ]  # fmt: skip


def said(value: object) -> str:
    """A fact for people, whatever it is."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {said(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(said, value)) or "none"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
