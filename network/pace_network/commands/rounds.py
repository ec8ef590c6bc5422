"""What the commands of all engines share: options of a round, following it, a node and its check."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pace.cli.given import argument, option
from pace.io import terminal as console

if TYPE_CHECKING:
    from pace_network.node import Node
    from pace_network.progress import Event, Progress
    from pace_network.round import RoundReport, Settings

KEY = "The server's private key, if the job has keys (default: server.key beside the job)."
Key = Annotated[Path | None, option(KEY, "FILE")]
Nodes = Annotated[str, option("Fix who is who: north=123,south=456.", "NAME=ID")]
Deadline = Annotated[float, option("Seconds for uploads.", "SECONDS")]
Delivery = Annotated[
    float | None, option("Seconds for returns (default: by the number of nodes).", "SECONDS")
]
Node_toml = Annotated[Path, argument("The site's node.toml.", metavar="FILE")]
Check = Annotated[bool, option("Say what would keep it from taking part, and end.", "", "--check")]


def begin_round(
    job_file: Path,
    key: Path | None,
    added: list[str] | None,
    removed: list[str] | None,
    withdrawals: list[Path] | None,
    **chosen: Any,
) -> Settings:
    """A round's settings, with journal, report and key beside the job.

    The job's next edition is begun where the options ask for one.
    """
    from pace.cli.job import edition_changes
    from pace.jobs import read_job
    from pace_network.round import Settings, begin_edition

    journal, out = job_file.with_suffix(".journal"), job_file.with_suffix(".report")
    beside = job_file.parent / "server.key" if read_job(job_file).signed else None
    settings = Settings(job_file, journal, out, key or beside, **chosen)
    if changes := edition_changes(added, removed, withdrawals):
        record = begin_edition(settings, changes)
        if changes.added and record is not None:
            who = ", ".join(changes.added)
            console.say(f"{who}: needs {record} in the node's folder jobs/, to take part", err=True)
    return settings


def following(progress: Progress, *, quiet: bool) -> Callable[[Event], None]:
    """Note events as they come, and print a line for each."""

    def tell(event: Event) -> None:
        row = progress.add(event)
        if not quiet and event.state != "missing":  # at the start that is everybody
            console.say(f"{datetime.now():%H:%M:%S} {event.sentence(row.who)}")
            sys.stdout.flush()

    return tell


def show_round(progress: Progress, report: RoundReport | None, out: Path) -> None:
    """Who got how far, and what to do next."""
    from pace_network.round import round_sentences

    if progress.rows:
        progress.table().show()
    if report:
        for sentence in round_sentences(report):
            console.console().print(sentence)
        console.say(f"Written: {out}/report.json, report.md and status.html beside it")


def check_node(node: Node, *, as_json: bool) -> None:
    """Say everything that would keep a site from taking part; exit with 1 if something would."""
    problems = node.problems()
    sentences = problems or [f"{node.name} can take part: {node.fits}."]
    console.answer({"name": node.name, "problems": problems}, *sentences, as_json=as_json)
    raise typer.Exit(int(bool(problems)))
