import json
import os
from functools import cache
from pathlib import Path

import pytest

from pace.errors import (
    BusyError,
    FileError,
    LateError,
    OtherJobError,
    SecondUploadError,
    SetAsideError,
    TooFewError,
)
from pace.io import atomic
from pace.jobs import signatures
from pace.jobs.admission import Admitted, admit
from pace.jobs.journal import Journal
from pace.protocol import steps
from tests.graphs import clients
from tests.sites import NAMES, job

JOB = job(minimum=2)


@cache
def uploads() -> dict[str, Admitted]:
    return {
        name: admit(steps.fit(graph, JOB.federation)[1], name, JOB)
        for name, graph in zip(NAMES, clients(3), strict=True)
    }


@pytest.mark.fault(11)
def test_an_upload_twice_is_accepted_once(tmp_path: Path) -> None:
    book = Journal.open(tmp_path, JOB)
    assert book.accept(uploads()["north"])
    assert not book.accept(uploads()["north"])
    assert book.accepted() == ["north"]


@pytest.mark.fault(12)
def test_another_upload_under_the_same_name_is_refused(tmp_path: Path) -> None:
    book = Journal.open(tmp_path, JOB)
    book.accept(uploads()["north"])
    other = Admitted("north", uploads()["south"].content)
    with pytest.raises(SecondUploadError, match="the first one counts"):
        book.accept(other)
    book.accept(uploads()["south"])
    book.close()
    with pytest.raises(SecondUploadError):
        book.accept(other)
    assert book.frames()[0] == uploads()["north"].content


@pytest.mark.fault(17)
def test_a_late_upload_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    book = Journal.open(tmp_path, JOB)
    book.accept(uploads()["west"])
    book.accept(uploads()["north"])
    decided = book.close()
    with pytest.raises(LateError, match="closed with 2 uploads"):
        book.accept(uploads()["south"])
    assert Journal.open(tmp_path, JOB).close() == decided
    assert book.accepted() == list(decided) == ["north", "west"]
    assert not book.accept(uploads()["north"])


@pytest.mark.fault(16)
def test_too_few_uploads_decide_nothing_and_say_who_is_missing(tmp_path: Path) -> None:
    book = Journal.open(tmp_path, JOB)
    book.accept(uploads()["north"])
    with pytest.raises(TooFewError, match=r"1 of at least 2 .* missing are south, west"):
        book.close()
    assert book.decision() is None


@pytest.mark.fault(26)
def test_uploads_are_merged_in_the_order_of_names(tmp_path: Path) -> None:
    expected = steps.merge([uploads()[name].content for name in NAMES], JOB.federation)
    for place, order in enumerate((NAMES, NAMES[::-1], ("south", "west", "north"))):
        book = Journal.open(tmp_path / str(place), JOB)
        for name in order:
            book.accept(uploads()[name])
        book.close()
        assert (
            list(steps.returns(steps.received(book.frames(), JOB.federation), JOB.federation))
            == expected
        )


def test_a_return_is_made_once(tmp_path: Path) -> None:
    book = Journal.open(tmp_path, JOB)
    assert not book.has_return("north")
    book.put_return("north", b"first")
    book.put_return("north", b"second")
    assert book.returned("north") == b"first"


def test_an_upload_that_rots_on_the_disk_is_noticed(tmp_path: Path) -> None:
    book = Journal.open(tmp_path, JOB)
    for upload in uploads().values():
        book.accept(upload)
    book.close()
    path = tmp_path / "uploads" / "south.up"
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileError, match="'south' has changed"):
        list(book.frames())


def rot(path: Path, at: int = 200) -> bytes:
    """Flip a bit, as a disk does; what the file held before."""
    before = path.read_bytes()
    content = bytearray(before)
    content[at] ^= 1
    path.write_bytes(content)
    return before


@pytest.mark.fault(39)
@pytest.mark.parametrize("harm", ["flip", "cut", "longer"])
def test_an_upload_that_rots_before_the_job_is_closed_is_set_aside(
    tmp_path: Path, harm: str
) -> None:
    """Another process admitted it; the job stays open, and the good file may be put back."""
    for upload in uploads().values():
        Journal.open(tmp_path, JOB).accept(upload)
    path = tmp_path / "uploads" / "south.up"
    if harm == "flip":
        rot(path)
    else:
        content = path.read_bytes()
        path.write_bytes(content[:100] if harm == "cut" else content + b"x")
    book = Journal.open(tmp_path, JOB)
    with pytest.raises(SetAsideError, match=r"of south the accepted upload was damaged"):
        book.close()
    assert book.decision() is None
    assert book.accepted() == ["north", "west"]
    assert [found.name.partition(".")[0] for found in (tmp_path / "damaged").iterdir()] == ["south"]
    assert book.accept(uploads()["south"])
    assert list(book.close()) == ["north", "south", "west"]
    assert list(book.frames())[1] == uploads()["south"].content


@pytest.mark.fault(39)
def test_a_signed_upload_in_anothers_place_is_set_aside(tmp_path: Path) -> None:
    """It is sound and its sender's own, and would count twice."""
    keys = {
        name: signatures.new_keys(tmp_path / f"{name}.key", tmp_path / f"{name}.pub")
        for name in (*NAMES, signatures.SERVER)
    }
    made = job(keys=keys, minimum=2)
    book = Journal.open(tmp_path / "journal", made)
    for name, graph in zip(NAMES[:2], clients(2), strict=True):
        key = signatures.load_key(tmp_path / f"{name}.key")
        frame = steps.fit(graph, made.federation)[1]
        signed = signatures.sign(frame, key, kind=signatures.UPLOAD, job=made.digest, name=name)
        book.accept(admit(signed, name, made))
    one, other = (tmp_path / "journal" / "uploads" / f"{name}.up" for name in NAMES[:2])
    other.write_bytes(one.read_bytes())
    again = Journal.open(tmp_path / "journal", made)
    with pytest.raises(SetAsideError, match=f"of {NAMES[1]} the accepted upload was damaged"):
        again.close()
    assert again.accepted() == [NAMES[0]]


def test_without_the_good_file_the_next_run_goes_on_with_those_who_are_here(tmp_path: Path) -> None:
    for upload in uploads().values():
        Journal.open(tmp_path, JOB).accept(upload)
    rot(tmp_path / "uploads" / "south.up")
    with pytest.raises(SetAsideError):
        Journal.open(tmp_path, JOB).close()
    assert list(Journal.open(tmp_path, JOB).close()) == ["north", "west"]


@pytest.mark.fault(39)
def test_the_good_file_takes_the_place_of_a_damaged_one_at_any_time(tmp_path: Path) -> None:
    """While the job is open and nobody has noticed yet, and after it is closed."""
    book = Journal.open(tmp_path, JOB)
    for upload in uploads().values():
        book.accept(upload)
    path = tmp_path / "uploads" / "south.up"
    rot(path)
    assert book.accept(uploads()["south"])
    assert path.read_bytes() == uploads()["south"].content
    decided = book.close()
    rot(path)
    with pytest.raises(FileError, match=f"SHA-256 {decided['south'][:16]} back into the inbox"):
        list(book.frames())
    other = Admitted("south", uploads()["north"].content)
    with pytest.raises(SecondUploadError):
        book.accept(other)
    assert book.accept(uploads()["south"])
    assert [len(frame) for frame in book.frames()] == [len(uploads()["south"].content)] * 3
    path.unlink()
    with pytest.raises(FileError, match="back into the inbox"):
        list(book.frames())
    assert book.accept(uploads()["south"])
    assert len(list((tmp_path / "damaged").iterdir())) == 1  # the same damage twice


@pytest.mark.fault(40)
def test_a_second_server_is_told_that_another_is_at_work(tmp_path: Path) -> None:
    with Journal.working(tmp_path / "a.journal", JOB) as book:
        book.accept(uploads()["north"])
        part = tmp_path / "a.journal" / "uploads" / ".x.part"
        part.write_bytes(b"half of what the first server is writing")
        with (
            pytest.raises(BusyError, match=r"another server is at work on .*\(process \d+\): wait"),
            Journal.working(tmp_path / "a.journal", JOB),
        ):
            pass
        assert part.exists()
    with Journal.working(tmp_path / "a.journal", JOB) as book:
        assert book.accepted() == ["north"]
    assert not (tmp_path / "a.journal" / ".lock").exists()


@pytest.mark.fault(13, 27)
def test_a_journal_belongs_to_one_job(tmp_path: Path) -> None:
    Journal.open(tmp_path, JOB)
    with pytest.raises(OtherJobError, match="its own journal"):
        Journal.open(tmp_path, job(minimum=2))


def test_refusals_are_written_down_once(tmp_path: Path) -> None:
    book = Journal.open(tmp_path, JOB)
    for _ in range(2):
        book.refuse("east", b"x", LateError("too late"))
    (found,) = book.refusals()
    assert (found.sender, found.code, found.reason) == ("east", "closed", "too late")


def test_a_refusal_that_lost_its_words_is_still_listed(tmp_path: Path) -> None:
    book = Journal.open(tmp_path, JOB)
    (tmp_path / "refused" / "a.json").write_text('{"sender": 3}')
    (found,) = book.refusals()
    assert (found.sender, found.code) == ("a", "file")
    assert "a.json is damaged (it has no code, reason)" in found.reason


def test_of_two_servers_the_first_decision_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one closes between our look at the uploads and our decision."""
    book, other = Journal.open(tmp_path, JOB), Journal.open(tmp_path, JOB)
    for name in ("north", "south"):
        book.accept(uploads()[name])
    real = atomic.create

    def slow(path: Path, content: bytes, **named: bool) -> bool:
        if path.name == "closed.json":
            monkeypatch.setattr(atomic, "create", real)
            other.accept(uploads()["west"])
            other.close()
        return real(path, content, **named)

    monkeypatch.setattr(atomic, "create", slow)
    assert list(book.close()) == ["north", "south", "west"]
    assert json.loads((tmp_path / "closed.json").read_bytes())["job"] == JOB.digest


@pytest.mark.fault(20)
def test_no_acknowledgement_without_a_disk_that_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Journal.open(tmp_path, JOB)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            book.accept(uploads()["north"])
    assert book.accepted() == []
    assert list((tmp_path / "uploads").iterdir()) == []
    assert book.accept(uploads()["north"])


@pytest.mark.fault(29, 30, 39)
def test_of_an_upload_that_grew_on_the_disk_no_more_is_read_than_an_upload_has(
    tmp_path: Path,
) -> None:
    """Nor is a FIFO in its place waited for."""
    book = Journal.open(tmp_path, JOB)
    for name in ("north", "south"):
        book.accept(uploads()[name])
    book.close()
    path = tmp_path / "uploads" / "north.up"
    os.truncate(path, 2**40)  # a hole, which takes no room on the disk
    assert len(book.stored("north")) == len(uploads()["north"].content) + 1
    with pytest.raises(FileError, match="has changed since the job was closed"):
        list(book.frames())
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        book.stored("north")
