"""`pace client fit`: train, say what will leave the site, write it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pace.cli.given import Allow, As_json, Device, Job_file, graphs

if TYPE_CHECKING:
    from rich.console import Console

    from pace.jobs.disclosure import Disclosure
    from pace.runtimes.files.fit import Fitted

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
    overlapping: Annotated[
        bool,
        typer.Option(
            "--overlapping", help="Agree to what this and earlier sealed jobs tell together."
        ),
    ] = False,
    device: Device = "auto",
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Train on your own graph, keep Local, and write the one upload.

    Before anything is written it says what will leave the site.

    Run again, it gives the same upload without training again.
    """
    import sys
    from contextlib import ExitStack

    import torch

    from pace.cli import console, options
    from pace.errors import SettingError
    from pace.io.text import shown
    from pace.jobs import explain
    from pace.jobs.job import read_job
    from pace.runtimes.files.fit import apart, fit_files, identity
    from pace.runtimes.files.site import load_site
    from pace.tables.features import unscaled_features

    if not yes and not sys.stdin.isatty():
        raise SettingError("nobody is here to ask: read what will be sent, then give --yes")
    place = receipt or keep.with_name(f"{keep.stem}.receipt.json")
    read = {"the job": job_file, "the graph": graph, "--key": key}
    apart(read | {"--keep": keep, "--upload": upload, "--receipt": place})
    job = read_job(job_file)
    identity(job, upload, key)  # before a large graph is read for nothing
    site = load_site(graph, job)
    large = unscaled_features(site.graph.x, job.features)
    torch.set_num_threads(1)  # two threads on small products are slower than one
    to = console.console(stderr=as_json)

    def confirm(disclosed: Disclosure) -> bool:
        waiting.close()
        if site.drawn and not as_json:
            shares = ", ".join(f"{100 * share:.0f}%" for share in site.drawn)
            to.print(f"{graph} has no split: train, validation and test were drawn ({shares}).")
        if large is not None:
            to.print(f"Warning: {large}", style="yellow")
        state(disclosed, upload, to)
        for sentence in explain.advice(job):
            to.print(f"Note: {sentence}")
        return yes or typer.confirm(shown(f"Write {upload}?"), err=as_json)

    with ExitStack() as waiting:
        bar = console.progress(job.federation.recipe.epochs, "Training")
        fitted = fit_files(
            job,
            site,
            keep,
            upload,
            place,
            key=key,
            device=options.device(device),
            overlapping=overlapping,
            confirm=confirm,
            progress=waiting.enter_context(bar),
        )
    if fitted is None:
        console.say("Nothing was written.", err=True)
        raise typer.Exit(1)
    if as_json:
        warnings = [] if large is None else [large]
        told = {"again": fitted.again, "warnings": warnings}
        console.one_object({**fitted.receipt, **told})
        return
    said(fitted, files=(keep, upload, place))


def state(found: Disclosure, upload: Path, to: Console) -> None:
    """What will leave the site, in plain words and bytes."""
    from pace.cli import console

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
    for sentence in found.sentences:
        to.print(sentence)
    to.print("")


def said(fitted: Fitted, files: tuple[Path, ...]) -> None:
    from pace.cli import console

    keep, upload, place = files
    how = (
        "The same upload as before; nothing was trained again."
        if fitted.again
        else f"Trained in {fitted.kept.about.seconds:.1f} s."
    )
    console.say(how)
    console.say(f"Written: {keep} (keep it: nobody else needs it)")
    console.say(f"Written: {upload} (send it to the server)")
    console.say(f"Written: {place} (for your records)")
    console.say(f"SHA-256 of the upload: {fitted.receipt['upload']['sha256'][:32]} …")
