"""The ServerApp: one round over Flower's grid, and a report of it."""

from __future__ import annotations

import logging

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from pace.errors import PaceError
from pace.io import plugins
from pace.io.text import shown
from pace.jobs.job_file import read_job
from pace.jobs.journal import Journal
from pace.runtimes.files import report
from pace.runtimes.flower.exchange import GridExchange
from pace.runtimes.network.progress import NOTE
from pace.runtimes.network.round import play
from pace.runtimes.network.settings import Settings

# Seconds for the ServerApp of a SuperLink that was killed: it looks for its SuperLink at least every
# 20 s, and ends when the next one does not know it.
ORPHANED = 60.0


class UnfinishedError(PaceError):
    """Too few uploads, or a return that nobody confirmed: the same job can be run again."""

    code = "unfinished"


def main(grid: Grid, context: Context) -> None:
    torch.set_num_threads(1)  # returns are the same whatever the machine
    say = logging.getLogger("flwr").info  # Flower carries it to `flwr log`
    settings = Settings.of(context.run_config)
    with (
        plugins.allowing(settings.allow),
        Journal.working(settings.journal, read_job(settings.job), ORPHANED) as book,
    ):
        if caution := book.job.federation.method.caution(len(book.job.participants)):
            say("%s", NOTE + caution)
        found = play(
            GridExchange(grid), settings, book, lambda event: say("%s", shown(event.line()))
        )
    report.write_report(settings.out, found)
    for sentence in report.merge_sentences(found):
        say("%s", shown(sentence))
    if not found.finished:
        left = ", ".join(found.undelivered)
        raise UnfinishedError(
            found.waiting or f"no confirmation from {left}: run the same job again for them"
        )


app = ServerApp()
app.main()(main)
