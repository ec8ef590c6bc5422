"""A disk that is full at the n-th write, and folders that cannot be written."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pace.errors import PaceError
from pace.io import atomic
from pace.jobs.admission import admit
from pace.jobs.journal import Journal
from pace.runtimes.files import merge as server
from tests.jobs.test_journal import JOB, uploads
from tests.runtimes.files.test_files import hashes
from tests.sites import NAMES

STEPS = ("fsync", "replace", "link", "rename", "mkdir")


@contextmanager
def failing(step: int, code: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """From the n-th step on the disk on, every step fails; the steps that were asked for."""
    asked: list[str] = []

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            asked.append(name)
            if len(asked) >= step:
                raise OSError(code, os.strerror(code))
            return real(*given, **named)

        return call

    with monkeypatch.context() as patched:
        for name in STEPS:
            patched.setattr(os, name, wrapped(name, getattr(os, name)))
        yield asked


@pytest.mark.fault(20)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_fails_at_any_step_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """At each step in turn: what was acknowledged is there; with room again, the same bytes."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for name in NAMES:
        (inbox / f"{name}.up").write_bytes(uploads()[name].content)

    def run(folder: Path) -> dict[str, bytes]:
        found = server.merge_files(JOB, [inbox], journal=folder / "journal", out=folder / "out")
        assert [client.name for client in found.took_part] == sorted(NAMES)
        return hashes(folder)

    whole = run(tmp_path / "undisturbed")
    for step in range(1, 200):
        folder = tmp_path / str(step)
        folder.mkdir()
        with failing(step, code, monkeypatch) as asked:
            try:
                run(folder)
            except (OSError, PaceError):
                failed = True
            else:
                failed = False
        if not failed:
            assert len(asked) < step
            break
        left = {name: content for name, content in hashes(folder).items() if ".part" not in name}
        assert all(whole[name] == content for name, content in left.items()), step
        assert run(folder) == whole, step
        shutil.rmtree(folder)
    assert step > 20


@pytest.mark.fault(20)
def test_an_acknowledged_upload_is_synced_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content, then the name in its place, then the folder: the order that survives a power cut."""
    book = Journal.open(tmp_path, JOB)
    seen = []
    real = {name: getattr(os, name) for name in ("fsync", "link")}

    def noted(name: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            seen.append(name)
            return real[name](*given, **named)

        return call

    with monkeypatch.context() as patched:
        for name in real:
            patched.setattr(os, name, noted(name))
        assert book.accept(admit(uploads()["north"].content, "north", JOB))
    assert seen == ["fsync", "link", "fsync"]


@pytest.mark.fault(18, 20)
def test_a_merge_settles_uploads_before_it_decides_and_returns_before_it_gives_them_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names become durable a folder at a time, and always before the next step relies on them."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for name in NAMES:
        (inbox / f"{name}.up").write_bytes(uploads()[name].content)
    seen: list[str] = []
    settle, create = atomic.settle, atomic.create

    def settled(folder: Path) -> None:
        seen.append(f"settle {folder.name}")
        settle(folder)

    def created(path: Path, content: bytes, **named: bool) -> bool:
        seen.append(f"create {path.parent.name}/{path.name}")
        return create(path, content, **named)

    monkeypatch.setattr(atomic, "settle", settled)
    monkeypatch.setattr(atomic, "create", created)
    server.merge_files(JOB, [inbox], journal=tmp_path / "journal", out=tmp_path / "out")

    def last(word: str, before: str) -> int:
        upto = seen[: seen.index(before)]
        return max(place for place, each in enumerate(upto) if each.startswith(word))

    decided, given = "create journal/closed.json", f"create out/{min(NAMES)}.down"
    assert last("create uploads/", decided) < last("settle uploads", decided)
    assert last("create returns/", given) < last("settle returns", given)
    assert seen[-1] == "settle out"
