"""`pace inspect`: what is this file?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pace.cli.given import As_json

EXAMPLES = """
Examples:

  pace inspect mine.up

  pace inspect mine.up --job job.pace

  pace inspect mine.model --json
"""


def inspect(
    file: Annotated[Path, typer.Argument(help="A job, graph, message, model, key or journal.")],
    job: Annotated[
        Path | None, typer.Option(help="Also check the file against this job.", metavar="FILE")
    ] = None,
    as_json: As_json = False,
) -> None:
    """Explain any file of ours: kind, version, digest, tensors, bytes, sanity."""
    from pace.cli import console
    from pace.cli.client import score_table
    from pace.jobs import job_file
    from pace.runtimes.files import report
    from pace.runtimes.files.inspect import inspect as look

    found = look(file, None if job is None else job_file.read(job))
    if as_json:
        console.one_object(found)
        return
    to = console.console()
    tables = {name: found.pop(name, None) for name in ("tensors", "refused", "validation", "test")}
    sanity = found.pop("sanity")
    console.facts(found.pop("file"), {key: said(value) for key, value in found.items()}, to)
    if tables["tensors"]:
        heads = ["Tensor", "Shape", "Bytes", "Min", "Max", "Zeros", "What it is"]
        console.table("", heads, [row(each) for each in tables["tensors"]], to)
    if tables["refused"]:
        heads, rows = report.refused(tables)
        console.table(f"Refused: {len(rows)}", heads, rows, to, words=2)
    for scores in filter(None, (tables["validation"], tables["test"])):
        score_table(scores, to)
    for each in sanity:
        to.print(f"Sanity: {each}")


def row(tensor: dict[str, Any]) -> list[str]:
    ends = ["-" if tensor[end] is None else f"{tensor[end]:.3g}" for end in ("min", "max")]
    shape = " × ".join(map(str, tensor["shape"]))
    return [
        tensor["name"], shape, f"{tensor['bytes']:,}", *ends, f"{tensor['zeros']:,}", tensor["what"]
    ]  # fmt: skip


def said(value: Any) -> str:
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
