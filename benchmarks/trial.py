"""The trial of five sites with every fault, by engine.

    python -m benchmarks.trial [--engine memory,folder,flower]

Each round has five sites, one fault between engine and server or at every site, and the real round,
journal and site steps. Returns must equal those of a merge in memory, byte for byte, or the trial fails.
Waiting is skipped: the seconds are those that the round would have waited. Engines are the conformance
suite's: nodes answer in this process, `folder` through files, `flower` in Flower's messages (it needs
flwr; a deployment with its processes is in tests/runtimes/flower). "training killed" ends each site's
process by SIGKILL when it has trained and nothing is kept yet.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stderr
from pathlib import Path
from typing import Any
from unittest import mock

from tests.engines import play_faulty
from tests.graphs import clients
from tests.networked import files
from tests.sites import job, write_sites

from pace.cli import console
from pace.protocol import steps
from pace.runtimes.files import client
from pace_network import site_steps
from pace_network.exchange import FAILED, Words
from pace_network.node import Node

SITES = ("east", "north", "south", "west", "zenith")
KILLED = "training killed"
TRIAL = {
    "none": "fault",
    "silent twice": "silent",
    "slow beyond expiry": "slow",
    "doubled": "doubled",
    "reordered": "reordered",
    "message or answer lost": "lost",
    "errors of the engine": "failing",
    "server killed": "restarted",
    KILLED: "fault",
    "hostile answers": "hostile",
}


@contextmanager
def killed_while_training() -> Iterator[None]:
    """Each site's first fit dies in a process of its own, as `respond` would see it."""
    answer: Callable[..., Words] = site_steps.answer_message
    died: set[str] = set()

    def die(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def dying(node: Node, kind: str, words: Mapping[str, object]) -> Words:
        if node.name in died:
            return answer(node, kind, words)
        died.add(node.name)
        if (child := os.fork()) == 0:
            mock.patch.object(
                client, "upload_disclosure", die
            ).start()  # the first thing after training
            answer(node, kind, words)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        return {"code": FAILED}

    with mock.patch.object(site_steps, "answer_message", dying):
        yield
    assert died == set(SITES)


def trial(engines: list[str]) -> list[dict[str, Any]]:
    """A row for each fault and engine."""
    made, rows = job(participants=SITES, minimum=len(SITES)), []
    uploads = [steps.fit(graph, made.federation)[1] for graph in clients(len(SITES))]
    returns = dict(zip(SITES, steps.merge(uploads, made.federation), strict=True))
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as quiet:
        write_sites(Path(folder) / "start", made, SITES)
        for fault, kind in TRIAL.items():
            for engine in engines:
                root = Path(folder) / f"{engine}-{fault}"
                shutil.copytree(Path(folder) / "start", root)
                killed = killed_while_training() if fault == KILLED else nullcontext()
                with redirect_stderr(quiet), killed:
                    report, waited = play_faulty(root, engine, kind, SITES)
                came = {n: set(files(root / n, f"{n}.down").values()) for n in SITES}
                adopted = sum(came[name] == {returns[name]} for name in SITES)
                assert report.finished, (engine, fault, report.waiting)
                assert adopted == len(SITES), (engine, fault)
                contacts = len(report.contacts)
                told = {"adopted": adopted, "contacts": contacts, "waited": round(waited)}
                rows.append({"fault": fault, "engine": engine} | told)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--engine", default="memory,folder,flower")
    engines = parser.parse_args().engine.split(",")
    rows = trial(engines)
    cells = {(row["fault"], row["engine"]): row for row in rows}
    text = "{adopted} of 5, {contacts} answers, {waited} s"
    lines = [[fault, *(text.format(**cells[fault, e]) for e in engines)] for fault in TRIAL]
    console.table("Five sites, by engine", ["Fault", *engines], lines, console.console(), words=0)


if __name__ == "__main__":
    main()
