"""`pace inspect` and `pace report`: what is this file, and the page of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pace.cli import console, given
from pace.cli.given import argument, option
from pace.errors import FileError
from pace.io import records


def inspect(
    path: Annotated[
        Path,
        argument("A job, graph, codebook, message, model, key or journal.", metavar="FILE"),
    ],
    job: Annotated[Path | None, option("Also check the file against this job.", "FILE")] = None,
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Explain any file that PACE writes: kind, version, digest, tensors, bytes, sanity.

    Examples:
        pace inspect mine.up
        pace inspect mine.up --job job.pace
        pace inspect mine.model --json
        pace inspect codebook.toml
    """
    from pace.jobs import read_job
    from pace.runtimes.files import inspect as file_facts
    from pace.runtimes.files import refused_table

    facts = file_facts(path, None if job is None else read_job(job))
    if as_json:
        console.one_object(records.plain_record(facts))
        return
    to, details = console.console(), dict(facts.details)
    for name in ("sent", "validation", "test"):  # of a model, whose page has them
        details.pop(name, None)
    lines = {"bytes": facts.bytes, "kind": facts.kind, "version": facts.version, **details}
    console.facts(facts.file, {key: written(value) for key, value in lines.items()}, to)
    if facts.tensors:
        sizes = [(each, " × ".join(map(str, each.shape))) for each in facts.tensors]
        rows = [[each.name, shape, f"{each.bytes:,}"] for each, shape in sizes]
        console.table("", ["Tensor", "Shape", "Bytes"], rows, to)
    if facts.refused:
        refused_table(f"Refused: {len(facts.refused)}", facts.refused).show(to)
    for sentence in facts.sanity:
        to.print(f"Sanity: {sentence}")


def written(value: object) -> str:
    """A fact for people, whatever it is."""
    match value:
        case dict():
            return ", ".join(f"{key} {written(item)}" for key, item in value.items())
        case list():
            return ", ".join(map(written, value)) or "none"
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def report(
    folder: Annotated[Path, argument("What `pace run` or `pace client adopt` has written.")],
    as_json: given.As_json = False,
) -> None:
    """Write the folder's index.html: one page that needs no network and opens from disk.

    Examples:
        pace report demo/ --json
        pace report mine.model
    """
    from pace.reports import NAME, RunResult
    from pace.runtimes.files import is_model, write_page

    if (folder / NAME).is_file():
        page = RunResult.read(folder).page(folder)
    elif is_model(folder):
        page = write_page(folder)
    else:
        raise FileError(
            f"{folder} has neither results.json (from `pace run --out`) nor model.json (from `pace "
            "client adopt`): name a folder that one of them has written"
        )
    if as_json:
        console.one_object({"page": str(page), "bytes": page.stat().st_size})
    else:
        console.say(page)
