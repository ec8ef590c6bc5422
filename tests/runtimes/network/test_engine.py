"""Another engine, from a file outside the package: the round needs nothing of it but an `Exchange`."""

from __future__ import annotations

import importlib
import sys
from functools import partial
from pathlib import Path

import pytest

from pace.jobs.job import read_job
from pace.jobs.journal import Journal
from pace.protocol import steps
from pace.runtimes.network import site_steps
from pace.runtimes.network.round import play_round
from tests.graphs import clients
from tests.networked import files, server_settings, site_nodes, stopped
from tests.sites import NAMES, job, write_sites

POST = '''
"""Messages as files in a shared folder: NODE/TICKET.KIND, answered by NODE/TICKET.reply."""

import base64
import json
from pathlib import Path

from pace.runtimes.network.exchange import Reply


def write(path, words):
    encoded = {
        name: {"bytes": base64.b64encode(word).decode()} if isinstance(word, bytes) else word
        for name, word in words.items()
    }
    path.write_text(json.dumps(encoded))


def read(path):
    return {
        name: base64.b64decode(word["bytes"]) if isinstance(word, dict) else word
        for name, word in json.loads(path.read_text()).items()
    }


class Post:
    def __init__(self, folder):
        self.folder, self.count = Path(folder), 0

    def nodes(self):
        return {int(path.name) for path in self.folder.iterdir()}

    def send(self, kind, messages, *, expires):
        tickets = {}
        for node, words in messages.items():
            self.count += 1
            write(self.folder / str(node) / f"{self.count}.{kind}", words)
            tickets[str(self.count)] = node
        return tickets

    def replies(self, tickets):
        for path in self.folder.glob("*/*.reply"):
            if path.stem in tickets:
                words = read(path)
                path.unlink()
                yield Reply(path.stem, words)


def answer_letters(folder, answer):
    """What a node does, whenever it looks into its folder."""
    for path in sorted(folder.glob("*.upload")) + sorted(folder.glob("*.return")):
        words = answer(path.suffix[1:], read(path))
        path.unlink()
        write(path.with_suffix(".reply"), words)
'''


def test_a_round_over_an_engine_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = stopped(monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "post.py").write_text(POST)
    post = importlib.import_module("post")
    monkeypatch.setitem(sys.modules, "post", post)
    made = job()
    write_sites(tmp_path, made)
    nodes = site_nodes(tmp_path, NAMES)
    for number in nodes:
        (tmp_path / "post" / str(number)).mkdir(parents=True)

    def look(seconds: float) -> None:
        """While the server waits, each node looks into its folder."""
        clock.now += seconds
        for number, node in nodes.items():
            folder = tmp_path / "post" / str(number)
            post.answer_letters(folder, partial(site_steps.answer_message, node))

    monkeypatch.setattr(clock, "sleep", look, raising=False)
    settings = server_settings(tmp_path)
    journal = Journal.open(settings.journal, read_job(settings.job))
    report = play_round(post.Post(tmp_path / "post"), settings, journal)
    assert report.finished
    assert [client.name for client in report.took_part] == list(NAMES)
    uploads = [steps.fit(graph, made.federation)[1] for graph in clients(3)]
    for name, returned in zip(NAMES, steps.merge(uploads, made.federation), strict=True):
        assert set(files(tmp_path, f"{name}.down").values()) == {returned}
