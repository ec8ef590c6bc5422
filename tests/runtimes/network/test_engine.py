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
from pace_network import site_steps
from pace_network.exchange import answer_letters
from pace_network.round import play_round
from tests.graphs import clients
from tests.networked import files, server_settings, site_nodes, stopped
from tests.sites import NAMES, job, write_sites

POST = '''
"""Messages as files in a folder: NODE/TICKET.message, answered by NODE/TICKET.reply."""

from pathlib import Path

from pace_network.exchange import Letter, Reply, decode_words, encode_words


class Post:
    def __init__(self, folder):
        self.folder, self.count = Path(folder), 0

    def nodes(self):
        return {path.name for path in self.folder.iterdir()}

    def send(self, kind, messages, *, expires):
        tickets = {}
        for node, words in messages.items():
            self.count += 1
            content = encode_words(kind, words, str(self.count))
            (self.folder / node / f"{self.count}.message").write_bytes(content)
            tickets[str(self.count)] = node
        return tickets

    def replies(self, tickets):
        for path in self.folder.glob("*/*.reply"):
            if path.stem in tickets:
                yield Reply(path.stem, decode_words(path.read_bytes())[1])


class Box:
    def __init__(self, folder):
        self.folder = folder

    def letters(self):
        for path in self.folder.glob("*.message"):
            if not path.with_suffix(".reply").exists():
                yield Letter(*decode_words(path.read_bytes()))

    def reply(self, letter, words):
        path = self.folder / f"{letter.ticket}.reply"
        path.write_bytes(encode_words("reply", words, letter.ticket))
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
        (tmp_path / "post" / number).mkdir(parents=True)

    def look(seconds: float) -> None:
        """While the server waits, each node looks into its folder."""
        clock.now += seconds
        for number, node in nodes.items():
            box = post.Box(tmp_path / "post" / number)
            answer_letters(box, partial(site_steps.answer_message, node), once=True)

    monkeypatch.setattr(clock, "sleep", look, raising=False)
    settings = server_settings(tmp_path)
    journal = Journal.open(settings.journal, read_job(settings.job))
    report = play_round(post.Post(tmp_path / "post"), settings, journal)
    assert report.finished
    assert [client.name for client in report.took_part] == list(NAMES)
    uploads = [steps.fit(graph, made.federation)[1] for graph in clients(3)]
    for name, returned in zip(NAMES, steps.merge(uploads, made.federation), strict=True):
        assert set(files(tmp_path, f"{name}.down").values()) == {returned}
