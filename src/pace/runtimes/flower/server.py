"""The ServerApp: one round over the job's journal, and a report of it."""

from __future__ import annotations

import json
import logging

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from pace.errors import PaceError
from pace.io import atomic
from pace.jobs import job_file
from pace.jobs.journal import Journal
from pace.runtimes.files import report
from pace.runtimes.flower.round import play
from pace.runtimes.flower.settings import Settings


class UnfinishedError(PaceError):
    """Too few uploads, or a return that nobody confirmed: the same job can be run again."""

    code = "unfinished"


def main(grid: Grid, context: Context) -> None:
    torch.set_num_threads(1)  # returns are the same whatever the machine
    settings = Settings.of(context.run_config)
    book = Journal.open(settings.journal, job_file.read(settings.job))
    found = play(grid, settings, book)
    pages = {"report.json": json.dumps(found, indent=1) + "\n", "report.md": report.markdown(found)}
    for name, content in pages.items():
        atomic.sweep(settings.out / name)
        atomic.write(settings.out / name, content.encode())
    for sentence in report.sentences(found):
        logging.getLogger("flwr").info("%s", sentence)
    if not found["finished"]:
        left = ", ".join(found["undelivered"])
        raise UnfinishedError(
            found["waiting"] or f"no confirmation from {left}: run the same job again for them"
        )


app = ServerApp()
app.main()(main)
