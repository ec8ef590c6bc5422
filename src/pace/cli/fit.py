"""`pace client fit`: train, say what will leave the site, write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pace.cli.given import As_json, Device, Job_file, graphs

if TYPE_CHECKING:
    from rich.console import Console

    from pace.jobs.disclosure import Disclosure
    from pace.jobs.job import Job
    from pace.runtimes.files.kept import KeptFile

EXAMPLES = """
Examples:

  pace client fit job.pace mine.graph --keep mine.local --upload mine.up

  pace client fit job.pace mine.graph --keep mine.local --upload mine.up
  --key mine.key --yes --json
"""


def fit(
    job_file: Job_file,
    graph: Annotated[Path, typer.Argument(help="Your own .graph file.", autocompletion=graphs)],
    keep: Annotated[Path, typer.Option(help="Where Local stays; never send it.", metavar="FILE")],
    upload: Annotated[
        Path, typer.Option(help="The file to send, such as mine.up.", metavar="FILE")
    ],
    key: Annotated[
        Path | None, typer.Option(help="Your private key, if the job has keys.", metavar="FILE")
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option(help="A JSON record (default: beside --keep).", metavar="FILE")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to what will leave the site.")] = False,
    device: Device = "auto",
    as_json: As_json = False,
) -> None:
    """Train on your own graph, keep Local, and write the one upload.

    Before anything is written it says what will leave the site.

    Run again, it gives the same upload without training again.
    """
    import sys

    import torch

    from pace.cli import console, options
    from pace.errors import SettingError
    from pace.io import atomic
    from pace.jobs.job_file import read as read_job
    from pace.runtimes.files import fit as step
    from pace.runtimes.files import site as sites

    if not yes and not sys.stdin.isatty():
        raise SettingError("nobody is here to ask: read what will be sent, then give --yes")
    place = receipt or keep.with_name(f"{keep.stem}.receipt.json")
    read = {"the job": job_file, "the graph": graph, "--key": key}
    step.apart(read | {"--keep": keep, "--upload": upload, "--receipt": place})
    job = read_job(job_file)
    who = step.identity(job, upload, key)
    site = sites.load(graph, job)
    torch.set_num_threads(1)  # two threads on small products are slower than one
    made = step.earlier(job, site, who, keep, upload)
    again = made is not None
    if made is None:
        with console.progress(job.federation.recipe.epochs, "Training") as bar:
            made = step.train(job, site, who, device=options.device(device), progress=bar)
    to = console.console(stderr=as_json)
    if site.drawn and not as_json:
        shares = ", ".join(f"{100 * share:.0f}%" for share in site.drawn)
        to.print(f"{graph} has no split: train, validation and test were drawn ({shares}).")
    state(step.disclosed(job, made), job, upload, to)
    if not yes and not typer.confirm(f"Write {upload}?", err=as_json):
        typer.echo("Nothing was written.", err=True)
        raise typer.Exit(1)
    step.write(job, who, made, keep, upload)
    record = step.receipt(job, who, made)
    atomic.sweep(place)
    atomic.write(place, (json.dumps(record, indent=1) + "\n").encode())
    if as_json:
        console.one_object(record | {"again": again})
        return
    said(made, record, again=again, files=(keep, upload, place))


def state(found: Disclosure, job: Job, upload: Path, to: Console) -> None:
    """What will leave the site, in plain words and bytes."""
    from pace.cli import console
    from pace.jobs.disclosure import revealed

    total = found.frame + found.signature
    numbers = sum(item.bytes for item in found.items)
    rows = [
        [item.name, " × ".join(map(str, item.shape)), f"{item.bytes:,}", item.words]
        for item in found.items
    ]
    rows.append(["", "", f"{found.frame - numbers:,}", "envelope: names, shapes, checksums"])
    if found.signature:
        rows.append(["", "", f"{found.signature:,}", "your signature (security overhead)"])
    title = (
        f"What will leave this site: {upload.name}, {total:,} bytes "
        f"({100 * found.share:.1f}% of the model's {found.dense:,})"
    )
    to.print(title)
    console.table("", ["Tensor", "Shape", "Bytes", "What it is"], rows, to)
    for sentence in revealed(found, job.features):
        to.print(sentence)
    to.print("")


def said(made: KeptFile, record: dict[str, Any], *, again: bool, files: tuple[Path, ...]) -> None:
    keep, upload, place = files
    how = (
        "The same upload as before; nothing was trained again."
        if again
        else f"Trained in {made.about['seconds']:.1f} s."
    )
    typer.echo(how)
    typer.echo(f"Written: {keep} (keep it: nobody else needs it)")
    typer.echo(f"Written: {upload} (send it to the server)")
    typer.echo(f"Written: {place} (for your records)")
    typer.echo(f"SHA-256 of the upload: {record['upload']['sha256'][:32]} …")
