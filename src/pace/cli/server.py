"""`pace server`: take in uploads, decide once, write everybody's return."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import pace
from pace.cli import given
from pace.cli.given import argument, option
from pace.cli.job import edition_changes
from pace.io import terminal as console

UPLOADS = argument("Uploads, or the folder they are in.", readable=False)

app = typer.Typer()


@app.command()
def merge(
    job_file: given.Job_file,
    out: Annotated[Path, option("The folder for returns and the report.", "FOLDER")],
    uploads: Annotated[list[Path] | None, UPLOADS] = None,
    key: Annotated[Path | None, option("The server's private key (default: JOB.key).")] = None,
    add: given.Added = None,
    remove: given.Removed = None,
    withdrawal: given.Withdrawals = None,
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Check every upload, merge those that count, write each client's return.

    The first merge closes the job: uploads that come later are refused.

    pace server merge job.pace inbox/*.up --out outbox/
    pace server merge job.pace inbox/ --out outbox/ --key server.key --json
    pace server merge job.pace --withdrawal south.withdrawal --out second/ --key server.key
    pace server merge job.pace --add east.pub --out second/ --key server.key

    What is accepted stays accepted, and returns never change once they are made. With --add, --remove
    or --withdrawal the job's next edition begins, and is merged from the uploads that are here. A
    new site gets the .edition file from --out and fits by it; then this is run again.

    It exits with 1 while uploads are missing: run it again when they have come.
    """
    given.one_thread()
    job, paths = pace.jobs.read_job(job_file), uploads or []
    beside = job_file.with_suffix(".key")  # where `pace new` makes it
    key = key or (beside if job.signed and beside.exists() else None)
    changes = edition_changes(add, remove, withdrawal)
    folder = job_file.with_suffix(".journal")
    with console.progress(None, "Checking") as bar:
        report = pace.files.merge_files(
            job, paths, journal=folder, out=out, key=key, changes=changes, progress=bar
        )
    console.answer(report, lambda: show_report(report, out), as_json=as_json)
    if not report.merged:
        raise typer.Exit(1)


def show_report(report: pace.files.MergeReport, out: Path) -> None:
    """The report in a terminal."""
    to = console.console()
    if report.here and not report.took_part:
        to.print(f"Accepted so far: {', '.join(report.here)}")
    for table in pace.files.merge.report_tables(report):
        if table.rows:
            to.print(table, table.note or "")
    to.print(*pace.files.merge.merge_sentences(report))
    if report.edition > 1:
        readers = ", ".join(report.new) or "anybody who asks"
        console.say(f"Written: {report.job['name']}.{report.edition}.edition (send to {readers})")
    if report.merged:
        for name in report.left:
            console.say(f"Written: {name}.certificate (send it to {name})")
        returns = console.many(len(report.took_part), "return")
        console.say(f"Written: {returns}, each with its roll, and report.md, all in {out}")
