"""The roll of who was in: what it says, what it is bound to, and that a minimum is enforced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pace.errors import PaceError, ParticipantError, RollError, SignatureError, TooFewError
from pace.jobs import roll as rolls
from pace.jobs import signatures
from pace.jobs.admission import admit
from pace.jobs.journal import Journal
from pace.protocol import steps
from tests.graphs import clients
from tests.sites import NAMES, job, roll

FRAME, RETURNED = b"upload", b"return"


def closed(folder: Path, **changes: object) -> Journal:
    """North and south are in; west sent something that was not taken, east nothing."""
    made = job(participants=(*NAMES, "east"), minimum=2, **changes)
    book = Journal.open(folder / "journal", made)
    for name, graph in zip(NAMES[:2], clients(2), strict=True):
        book.accept(admit(steps.fit(graph, made.federation)[1], name, made))
    book.refuse("west", b"noise", ParticipantError("another node"))
    book.refuse("nobody we know", b"noise", ParticipantError("a stranger"))
    book.close()
    return book


def test_the_roll_says_who_was_merged_refused_and_missing(tmp_path: Path) -> None:
    book = closed(tmp_path)
    upload, content = book.stored("north"), rolls.roll_writer(book, None)("north", RETURNED)
    found = rolls.check_roll(content, book.job, "north", upload=upload, returned=RETURNED)
    assert found.merged == ("north", "south")
    assert found.refused == {"west": "unknown-participant"}
    assert found.missing == ("east",)
    said = " ".join(rolls.roll_sentences(found, book.job))
    assert said == (
        "Merged: north, south (2 of 4; the server's word, not signed). "
        "Refused: west (unknown-participant). Missing: east."
    )


def test_what_was_told_once_is_told_to_everybody(tmp_path: Path) -> None:
    """East comes after the decision and is refused: later rolls still say what the first one said."""
    book = closed(tmp_path)
    first = rolls.roll_writer(book, None)("north", RETURNED)
    book.refuse("east", b"late", ParticipantError("late"))
    again = Journal.open(book.folder, book.job)
    assert rolls.roll_writer(again, None)("north", RETURNED) == first
    south = json.loads(rolls.roll_writer(again, None)("south", RETURNED))
    assert south["decision"] == json.loads(first)["decision"]
    assert south["missing"] == ["east"]


@pytest.mark.parametrize(
    "change",
    [
        {"job": "0" * 64},
        {"receiver": "south"},
        {"upload": "0" * 64},
        {"returned": "0" * 64},
        {"merged": ("south", "west"), "missing": ("north",)},
        {"merged": NAMES, "missing": ("north",)},
        {"merged": NAMES, "missing": ("stranger",)},
        {"merged": ("north", "south", "we\nst")},
        {"merged": 5},
        {"format": "pace-roll-2"},
        {"refused": ["west"]},
        {"decision": "x" * 65},
        {"decision": None},
        {"more": 1},
    ],
)
def test_a_roll_is_of_one_job_one_receiver_and_one_return(change: dict[str, object]) -> None:
    made = job()
    good = roll(made, "north", FRAME, RETURNED)
    rolls.check_roll(good, made, "north", upload=FRAME, returned=RETURNED)
    wrong = json.dumps(json.loads(good) | change).encode()
    with pytest.raises(RollError):
        rolls.check_roll(wrong, made, "north", upload=FRAME, returned=RETURNED)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"[" * 10**6, b"\xff", bytes(100)])
def test_what_is_no_roll_is_refused(content: bytes) -> None:
    with pytest.raises(RollError, match="not a roll"):
        rolls.check_roll(content, job(), "north", upload=FRAME, returned=RETURNED)


def test_below_the_minimum_nothing_is_adopted() -> None:
    made = job(minimum=3)
    few = roll(made, "north", FRAME, RETURNED, merged=("north", "south"), missing=("west",))
    with pytest.raises(TooFewError, match="merged 2 uploads, this job asks for at least 3"):
        rolls.check_roll(few, made, "north", upload=FRAME, returned=RETURNED)


def test_with_keys_only_the_servers_roll_counts(tmp_path: Path) -> None:
    keys = {
        name: signatures.new_keys(tmp_path / f"{name}.key", tmp_path / f"{name}.pub")
        for name in (*NAMES, "server")
    }
    made = job(keys=keys)
    content = roll(made, "north", FRAME, RETURNED)

    def signed(by: str, to: str, kind: str = signatures.ROLL) -> bytes:
        key = signatures.load_key(tmp_path / f"{by}.key")
        return signatures.sign(content, key, kind=kind, job=made.digest, name=to)

    good = signed("server", "north")
    assert rolls.check_roll(good, made, "north", upload=FRAME, returned=RETURNED).merged == NAMES
    wrong = (content, signed("south", "north"), signed("server", "south"))
    for each in (*wrong, signed("server", "north", signatures.RETURN), good[:-1]):
        with pytest.raises((SignatureError, RollError)) as refused:
            rolls.check_roll(each, made, "north", upload=FRAME, returned=RETURNED)
        assert isinstance(refused.value, PaceError)
