"""`pace folder`: run a job over a folder that server and sites share."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pace.cli import manual
from pace.cli.given import Added, Allow, As_json, Job_file, Removed, Withdrawals, argument, option
from pace.io import terminal as console
from pace_network.commands import rounds

EXAMPLES = """
pace folder node node.toml --once
pace folder run job.pace /mnt/share --key server.key
"""
Share = Annotated[Path, argument("The shared folder, as this machine sees it.", metavar="SHARE")]

app = typer.Typer(
    cls=manual.Group, help="Over a shared folder: a site's node, and the round.", epilog=EXAMPLES
)


@app.command("node", cls=manual.Command)
def node(
    settings: rounds.Node_toml,
    once: Annotated[bool, option("Answer what is there, and end: for cron.", "", "--once")] = False,
    check: rounds.Check = False,
    as_json: As_json = False,
) -> None:
    """Run a site's node: answer what the server asks in the site's folder of the share.

    With --check it exits with 1 if something would keep the site from taking part.

    pace folder node node.toml
    pace folder node node.toml --once
    """
    from pace_network.folder import FolderNode

    site = FolderNode.read(settings)
    if check:
        rounds.check_node(site, as_json=as_json)
    answered = site.run(once=once)
    line = f"{site.name}: {console.many(answered, 'message')} answered"
    console.answer({"name": site.name, "answered": answered}, line, as_json=as_json)


@app.command("run", cls=manual.Command)
def run(
    job_file: Job_file,
    share: Share,
    key: rounds.Key = None,
    deadline: rounds.Deadline = 86_400.0,
    delivery: rounds.Delivery = 86_400.0,
    add: Added = None,
    remove: Removed = None,
    withdrawal: Withdrawals = None,
    allow: Allow = None,
    as_json: As_json = False,
) -> None:
    """Ask every site for its upload, merge, give each its return; show who is where.

    A site's folder in SHARE is named after it. Exit code 0: all who took part have confirmed their
    return; 1: not yet, run it again; 2: it could not start.

    pace folder run job.pace /mnt/share --key server.key
    pace folder run job.pace /mnt/share --deadline 60 --delivery 60

    Run again, it goes on where an earlier run ended, also from cron. --add, --remove and --withdrawal
    begin the job's next edition, as in `pace server merge`.
    """
    from pace.jobs import newest_job, read_job
    from pace_network.folder import SharedFolder
    from pace_network.progress import Progress
    from pace_network.round import run_round

    times = {"deadline": deadline, "delivery": delivery}
    settings = rounds.begin_round(job_file, key, add, remove, withdrawal, **times)
    job = read_job(job_file)
    members = newest_job(settings.journal, job).participants
    settings = replace(settings, nodes={name: name for name in members})
    if not job.signed:
        console.say("the job has no keys: who may write to the share may forge messages", err=True)
    progress = Progress()
    show = rounds.following(progress, quiet=as_json)
    report = run_round(SharedFolder(share), settings, show)
    told = partial(rounds.show_round, progress, report, settings.out)
    console.answer(report, told, as_json=as_json)
    raise typer.Exit(int(not report.finished))
