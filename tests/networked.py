"""The network's round without a network: nodes that respond in this process, a clock of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pace.io import records
from pace.jobs.job import read_job
from pace.jobs.journal import Journal
from pace_network import site_steps
from pace_network.exchange import Words
from pace_network.node import Node
from pace_network.round import Settings, play_round
from tests.in_memory import Clock, Handler, InMemory

Tamper = Callable[[str, str, Words], Words | None]  # node, kind, its reply -> what arrives


def stopped(patch: pytest.MonkeyPatch) -> Clock:
    """The round on such a clock."""
    clock = Clock()
    patch.setattr("pace_network.exchange.time", clock)
    return clock


def site_node(root: Path, name: str, **changes: Any) -> Node:
    """The node of a site's folder under `root`."""
    site = root / name
    (site / "state").mkdir(exist_ok=True)
    paths = {"job": "job.pace", "graph": "mine.graph", "folder": "state"}
    settings: dict[str, Any] = {key: site / path for key, path in paths.items()}
    return Node(name=name, **(settings | changes))


def site_nodes(root: Path, names: Iterable[str], **changes: Any) -> dict[str, Node]:
    """Node 11, 12, … for the sites' folders under `root`."""
    return {
        str(number): site_node(root, name, **changes) for number, name in enumerate(names, start=11)
    }


def connected(
    nodes: Mapping[str, Node],
    tamper: Tamper = lambda node, kind, reply: reply,
) -> InMemory:
    """Nodes by number, which answer in this process. `tamper` may change, replace or drop a reply."""

    def handler(node: str) -> Handler:
        def handle(kind: str, asked: Words) -> Words | None:
            return tamper(node, kind, site_steps.answer_message(nodes[node], kind, asked))

        return handle

    return InMemory({node: handler(node) for node in nodes})


def server_settings(root: Path, **changes: Any) -> Settings:
    server = root / "server"
    paths = {"job": "job.pace", "journal": "job.journal", "out": "job.report"}
    return Settings(**({key: server / path for key, path in paths.items()} | changes))


def run(root: Path, exchange: InMemory, **changes: Any) -> Any:
    """One run of the server's job; its report as JSON has it."""
    settings = server_settings(root, **changes)
    book = Journal.open(settings.journal, read_job(settings.job))
    return json.loads(json.dumps(records.plain_record(play_round(exchange, settings, book))))


def files(root: Path, pattern: str) -> dict[str, bytes]:
    """By the place under `root`, so that a site's copy and the journal's are two."""
    found = [path for path in root.rglob(pattern) if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def only(root: Path, name: str) -> bytes:
    """The one file of this name under `root`."""
    (content,) = files(root, name).values()
    return content
