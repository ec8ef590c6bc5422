"""`pace server`: take in uploads, decide once, write everybody's return."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pace.cli import manual
from pace.cli.given import Allow, As_json, Job_file

if TYPE_CHECKING:
    from pace.runtimes.files.report import MergeReport

MERGE = """
Examples:

  pace server merge job.pace inbox/*.up --out outbox/

  pace server merge job.pace inbox/ --out outbox/ --key server.key --json

What is accepted stays accepted, and returns never change once they are made.

It exits with 1 while uploads are missing: run it again when they have come.
"""
CHECK = """
Example:

  pace server check job.pace inbox/*.up
"""
EXAMPLES = """
  pace server check job.pace inbox/

  pace server merge job.pace inbox/ --out outbox/
"""

app = typer.Typer(
    cls=manual.Group, help="The server: check uploads, merge them once.", epilog=EXAMPLES
)


@app.command("merge", cls=manual.Command, epilog=MERGE)
def merge(
    job_file: Job_file,
    out: Annotated[
        Path, typer.Option(help="The folder for returns and the report.", metavar="FOLDER")
    ],
    uploads: Annotated[
        list[Path] | None,
        typer.Argument(help="Uploads, or the folder they are in.", readable=False),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(help="The job's crash-safe folder (default: JOB.journal).", metavar="FOLDER"),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(help="The server's private key, if the job has keys.", metavar="FILE"),
    ] = None,
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Check every upload, merge those that count, write each client's return.

    The first merge closes the job: uploads that come later are refused.
    """
    import torch

    from pace.cli import console
    from pace.io import records
    from pace.jobs.job import read_job
    from pace.runtimes.files.merge import merge_files, upload_files

    torch.set_num_threads(1)
    job = read_job(job_file)
    place = journal or job_file.with_suffix(".journal")
    many = len(job.participants) or len(upload_files(uploads or []))
    if caution := job.federation.method.caution(many):
        console.say(caution, err=True)
    with console.progress(None, "Checking") as bar:
        found = merge_files(job, uploads or [], journal=place, out=out, key=key, progress=bar)
    if as_json:
        console.one_object(records.plain_record(found))
    else:
        show(found, out)
    if not found.merged:
        raise typer.Exit(1)


def show(found: MergeReport, out: Path) -> None:
    """The report in a terminal."""
    from pace.cli import console
    from pace.runtimes.files import report

    to = console.console()
    table = report.took_part_table(found)
    if found.took_part:
        table.show(to)
    elif found.here:
        to.print(f"Accepted so far: {', '.join(found.here)}")
    if found.refused:
        report.refused_table(f"Refused: {len(found.refused)}", found.refused).show(to)
    for sentence in report.merge_sentences(found):
        to.print(sentence)
    if found.merged:
        to.print(table.note)
        made = console.many(len(found.took_part), "return")
        console.say(f"Written: {made} and report.md in {out}")


@app.command("check", cls=manual.Command, epilog=CHECK)
def check(
    job_file: Job_file,
    uploads: Annotated[
        list[Path], typer.Argument(help="Uploads, or the folder they are in.", readable=False)
    ],
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Say which uploads the job would take, and who is missing. Nothing is written."""
    from pace.cli import console
    from pace.io import records
    from pace.jobs.job import read_job
    from pace.runtimes.files.merge import check_uploads
    from pace.runtimes.files.report import refused_table

    job = read_job(job_file)
    checked, missing = check_uploads(job, uploads)
    if as_json:
        console.one_object({"uploads": records.plain_record(checked), "missing": missing})
    else:
        refused_table("", checked).show()
        if missing:
            console.say(f"Missing: {', '.join(missing)}")
    if any(upload.code != "ok" for upload in checked):
        raise typer.Exit(1)
