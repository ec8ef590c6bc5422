"""Rounds with hundreds of sites, each with a key: some never answer, some on the second time only."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.load import alike, make_job

from pace.jobs import SERVER, Journal, signatures, write_job
from pace.jobs import roll as rolls
from pace.protocol import wire
from pace_network.exchange import UPLOAD, Words
from pace_network.round import Settings, play_round
from tests.in_memory import Handler, InMemory, LostError

SILENT, LATE, TWENTY = 3, 7, 20  # of each twenty sites, one never answers, one on the second time

EVENTS: Counter[str] = Counter()  # that Python audits, for the life of the process
sys.addaudithook(lambda event, _: EVENTS.update((event,)))

pytestmark = pytest.mark.usefixtures("clock")


def opens(folder: Path, sites: int) -> int:
    """One round with so many sites; how many files the server opened."""
    names = tuple(f"site-{place:04}" for place in range(sites))
    files = {name: folder / "keys" / f"{name}.key" for name in (*names, SERVER)}
    keys = {
        name: signatures.new_keys(path, path.with_suffix(".pub")) for name, path in files.items()
    }
    job = make_job(names, keys=keys)
    write_job(folder / "job.pace", job)
    silent, late = set(names[SILENT::TWENTY]), set(names[LATE::TWENTY])
    adopted: Counter[str] = Counter()

    def site(name: str, frame: bytes, signed: bytes) -> Handler:
        def handle(kind: str, words: Words) -> Words | None:
            if kind == UPLOAD:
                if name in late:
                    late.discard(name)
                    raise LostError("late")
                return None if name in silent else {"code": "ok", "name": name, "payload": signed}
            came, checked = words["payload"], {"job": job.digest, "name": name}
            signatures.verify(came, keys[SERVER], kind=signatures.RETURN, **checked)
            rolls.check_roll(words["roll"], job, name, upload=frame, returned=came)
            adopted[name] += 1
            return {}

        return handle

    handlers = {}
    for place, (name, message) in enumerate(zip(names, alike(job, sites), strict=True)):
        frame, key = wire.encode(message, job.federation.digest), signatures.load_key(files[name])
        signed = signatures.sign(frame, key, kind=UPLOAD, job=job.digest, name=name)
        handlers[str(2**62 + place)] = site(name, frame, signed)
    paths = (folder / "job.pace", folder / "job.journal", folder / "report")
    settings = Settings(*paths, key=files[SERVER])
    opened, journal = EVENTS["open"], Journal.open(settings.journal, job)
    report = play_round(InMemory(handlers), settings, journal)
    assert report.finished, report.waiting
    assert set(adopted) == set(names) - silent == {client.name for client in report.took_part}
    assert set(adopted.values()) == {1}, "a return was sent twice"
    return EVENTS["open"] - opened


def test_the_cost_of_an_answer_does_not_grow_with_the_number_of_nodes(tmp_path: Path) -> None:
    """Files opened by the server for each node."""
    few, many = (opens(tmp_path / str(sites), sites) for sites in (8, 64))
    assert few / 8 >= many / 64 - 1


@pytest.mark.slow
def test_five_hundred_sites_are_all_served(tmp_path: Path) -> None:
    assert opens(tmp_path, 500) <= 20 * 500
