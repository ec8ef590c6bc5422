"""The network's round without a network: nodes that respond in this process, a clock of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pace.io import records
from pace.jobs.job_file import read_job
from pace.jobs.journal import Journal
from pace.runtimes.network import watchdog, worker
from pace.runtimes.network.in_memory import Handler, InMemory
from pace.runtimes.network.messages import Words
from pace.runtimes.network.respond import respond
from pace.runtimes.network.round import play
from pace.runtimes.network.settings import Settings

Tamper = Callable[[int, str, Words], Words | None]  # node, kind, its reply -> what arrives


@dataclass
class Clock:
    """A time that passes only while somebody sleeps: no deadline is missed on a busy machine."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def stopped(patch: pytest.MonkeyPatch) -> Clock:
    """The round on such a clock, and steps without a process, which takes seconds to start."""

    def run(config: Any, step: str, job: str, *content: bytes, station: Any) -> dict[str, str]:
        asked: worker.Asked = {"node": config, "step": step, "job": job, "bytes": {}}
        return worker.answer(asked, *content)

    clock = Clock()
    patch.setattr(watchdog, "run", run)
    for module in ("exchange", "round"):
        patch.setattr(f"pace.runtimes.network.{module}.time", clock)
    return clock


def configs(root: Path, names: Iterable[str], **more: Any) -> dict[int, dict[str, Any]]:
    """Node 11, 12, … for the sites' folders under `root`."""
    made = {}
    for number, name in enumerate(names, start=11):
        site = root / name
        (site / "state").mkdir(exist_ok=True)
        paths = {"job": "job.pace", "graph": "mine.graph", "folder": "state"}
        made[number] = {"name": name, **{key: str(site / path) for key, path in paths.items()}}
        made[number] |= more
    return made


def connected(
    nodes: Mapping[int, Mapping[str, Any]],
    tamper: Tamper = lambda node, kind, reply: reply,
) -> InMemory:
    """Nodes by number, each with its settings. `tamper` may change, replace or drop a reply."""

    def handler(node: int) -> Handler:
        def handle(kind: str, asked: Words) -> Words | None:
            return tamper(node, kind, respond(lambda: nodes[node], kind, asked))

        return handle

    return InMemory({node: handler(node) for node in nodes})


def run(root: Path, exchange: InMemory, **config: Any) -> Any:
    """One run of the server's job; its report as JSON has it."""
    settings = Settings.of({"job": str(root / "server" / "job.pace")} | config)
    book = Journal.open(settings.journal, read_job(settings.job))
    return json.loads(json.dumps(records.plain_record(play(exchange, settings, book))))


def files(root: Path, pattern: str) -> dict[str, bytes]:
    """By the place under `root`, so that a site's copy and the journal's are two."""
    found = [path for path in root.rglob(pattern) if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def only(root: Path, name: str) -> bytes:
    """The one file of this name under `root`."""
    (content,) = files(root, name).values()
    return content
