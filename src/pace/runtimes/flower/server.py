"""One round over Flower: a run is started at the SuperLink and carried out in this process."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import torch

from pace.errors import FlowerError, PaceError
from pace.io.text import shown
from pace.jobs.job import read_job
from pace.jobs.journal import Journal
from pace.runtimes.files.merge import write_report
from pace.runtimes.flower.control import Control, Run
from pace.runtimes.flower.exchange import GridExchange
from pace.runtimes.flower.tasks import Runtime, carrying_out
from pace.runtimes.network.progress import Event
from pace.runtimes.network.round import RoundReport, play_round
from pace.runtimes.network.settings import Settings

# Seconds for an earlier run of the job whose SuperLink was killed: it gives up after 30.
ORPHANED = 60.0


class UnfinishedError(PaceError):
    """Too few uploads, or a return that was not confirmed: the same job can be run again."""

    code = "unfinished"


def play_run(
    control: Control, number: str, settings: Settings, show: Callable[[Event], None]
) -> tuple[Run, RoundReport | None]:
    """Play the whole round of a job.

    Args:
        control: of the SuperLink.
        number: of the run, which was just started there.
        show: called with every event as it happens; the SuperLink keeps them too.

    Returns:
        What Flower says of the run, and the report, if the round came to its end.
    """
    torch.set_num_threads(1)  # returns are the same whatever the machine
    kit = control.kit
    runtime = Runtime(kit.control, kit.secret.read_bytes(), kit.certificate.read_bytes())
    finished = None
    try:
        with (
            carrying_out(runtime, int(number)) as (grid, write),
            Journal.working(settings.journal, read_job(settings.job), ORPHANED) as journal,
        ):

            def tell(event: Event) -> None:
                write(f"{shown(event.line())}\n")
                show(event)

            finished = play_round(GridExchange(grid), settings, journal, tell)
            write_report(settings.out, finished)
            if not finished.finished:
                raise UnfinishedError(_unfinished(finished))
    except (UnfinishedError, KeyboardInterrupt):
        pass  # Flower's list says what became of the run
    except httpx.HTTPError as error:
        raise FlowerError(f"the SuperLink at {kit.control} was lost: {error}") from error
    return control.ended(number), finished


def _unfinished(finished: RoundReport) -> str:
    missing = ", ".join(finished.undelivered)
    return finished.waiting or f"no confirmation from {missing}: run the same job again for them"
