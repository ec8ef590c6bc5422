"""`pace server`: take in uploads, decide once, write everybody's return."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pace.cli import console, given
from pace.cli.given import argument, option
from pace.errors import SettingError
from pace.io import plain_record

if TYPE_CHECKING:
    from pace.runtimes.files import Changes, MergeReport

UPLOADS = argument("Uploads, or the folder they are in.", readable=False)

app = typer.Typer()


Out = Annotated[Path, option("The folder for returns and the report.", "FOLDER")]
Journal_folder = Annotated[
    Path | None, option("The job's crash-safe folder (default: JOB.journal).", "FOLDER")
]
Server_key = Annotated[
    Path | None, option("The server's private key, if the job has keys.", "FILE")
]


@app.command()
def merge(
    job_file: given.Job_file,
    out: Out,
    uploads: Annotated[list[Path] | None, UPLOADS] = None,
    journal: Journal_folder = None,
    key: Server_key = None,
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Check every upload, merge those that count, write each client's return.

    The first merge closes the job: uploads that come later are refused.

    Examples:
        pace server merge job.pace inbox/*.up --out outbox/
        pace server merge job.pace inbox/ --out outbox/ --key server.key --json

    What is accepted stays accepted, and returns never change once they are made.

    It exits with 1 while uploads are missing: run it again when they have come.
    """
    _merge(job_file, uploads or [], journal=journal, out=out, key=key, as_json=as_json)


@app.command()
def edition(
    job_file: given.Job_file,
    out: Out,
    uploads: Annotated[list[Path] | None, UPLOADS] = None,
    add: Annotated[
        list[str] | None, option("Who comes in: NAME=KEY.pub, by commas; repeat.", "NAMES")
    ] = None,
    withdrawal: given.Withdrawals = None,
    remove: Annotated[list[str] | None, option("Whom to take off; repeat.", "NAME")] = None,
    journal: Journal_folder = None,
    key: Server_key = None,
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Begin the job's next edition and merge it from the journal: who comes in, who leaves.

    Nobody fits again: the uploads that are here are merged without those who left. A new site
    gets the .edition file from --out, fits by it, and then `pace server merge` merges all.

    Examples:
        pace server edition job.pace --withdrawal south.withdrawal --out second/ --key server.key
        pace server edition job.pace --add east=east.pub --out second/ --key server.key

    It exits with 1 while uploads are missing. In a sealed job there is no other edition.
    """
    from pace.cli.job import keys_of
    from pace.runtimes.files import Changes

    names, added, _ = keys_of(add or [], None, sealed=False)
    if missing := set(names) - added.keys():
        raise SettingError(f"--add {missing.pop()} has no key: give NAME=NAME.pub")
    changes = Changes(added, tuple(withdrawal or ()), tuple(remove or ()))
    _merge(
        job_file, uploads or [], journal=journal, out=out, key=key, as_json=as_json, changes=changes
    )


def _merge(
    job_file: Path,
    paths: list[Path],
    *,
    journal: Path | None,
    out: Path,
    key: Path | None,
    as_json: bool,
    changes: Changes | None = None,
) -> None:
    import torch

    from pace.jobs import read_job
    from pace.runtimes.files import merge_files, upload_files

    torch.set_num_threads(1)
    job = read_job(job_file)
    folder = journal or job_file.with_suffix(".journal")
    clients = len(job.participants) or len(upload_files(paths))
    if caution := job.federation.method.caution(clients):
        console.say(caution, err=True)
    with console.progress(None, "Checking") as bar:
        report = merge_files(
            job, paths, journal=folder, out=out, key=key, changes=changes, progress=bar
        )
    if as_json:
        console.one_object(plain_record(report))
    else:
        show_report(report, out)
    if not report.merged:
        raise typer.Exit(1)


def show_report(report: MergeReport, out: Path) -> None:
    """The report in a terminal."""
    from pace.runtimes.files import merge_sentences, refused_table, took_part_table

    to, table = console.console(), took_part_table(report)
    if report.took_part:
        table.show(to)
    elif report.here:
        to.print(f"Accepted so far: {', '.join(report.here)}")
    if report.refused:
        refused_table(f"Refused: {len(report.refused)}", report.refused).show(to)
    for sentence in merge_sentences(report):
        to.print(sentence)
    if report.merged:
        to.print(table.note)
        returns = console.many(len(report.took_part), "return")
        console.say(f"Written: {returns} and report.md in {out}")


@app.command()
def check(
    job_file: given.Job_file,
    uploads: Annotated[list[Path], UPLOADS],
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Say which uploads the job would take, and who is missing. Nothing is written.

    Example:
        pace server check job.pace inbox/*.up
    """
    from pace.jobs import read_job
    from pace.runtimes.files import check_uploads, refused_table

    checked, missing = check_uploads(read_job(job_file), uploads)
    if as_json:
        console.one_object({"uploads": plain_record(checked), "missing": missing})
    else:
        refused_table("", checked).show()
        if missing:
            console.say(f"Missing: {', '.join(missing)}")
    if any(upload.code != "ok" for upload in checked):
        raise typer.Exit(1)
