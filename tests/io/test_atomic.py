import os
import stat
from pathlib import Path

import pytest

from pace.io import atomic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_write_replaces_and_create_does_not(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    atomic.write(path, b"one")
    atomic.write(path, b"two")
    assert not atomic.create(path, b"three")
    assert path.read_bytes() == b"two"
    assert names(path.parent) == ["file"]


@pytest.mark.parametrize("links", [True, False])
def test_of_two_who_create_one_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """Also where the disk has no hard links, as a USB stick; the other comes while we write."""
    real = os.fsync

    def meanwhile(handle: int) -> None:
        monkeypatch.setattr(os, "fsync", real)
        (tmp_path / "file").write_bytes(b"theirs")
        real(handle)

    def no_link(*names: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", no_link)
    assert atomic.create(tmp_path / "other", b"ours")
    monkeypatch.setattr(os, "fsync", meanwhile)
    assert not atomic.create(tmp_path / "file", b"ours")
    assert (tmp_path / "file").read_bytes() == b"theirs"
    assert (tmp_path / "other").read_bytes() == b"ours"
    assert names(tmp_path) == ["file", "other"]


@pytest.mark.fault(20)
def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    atomic.write(tmp_path / "file", b"before")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for write in (atomic.write, atomic.create):
        path = tmp_path / ("file" if write is atomic.write else "new")
        with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
            write(path, b"after")
    with pytest.raises(OSError, match="No space"):
        atomic.folder(tmp_path / "folder", {"a": b"1", "b": b"2"})
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"before"


def test_a_folder_is_complete_and_never_merged_into_another(tmp_path: Path) -> None:
    atomic.folder(tmp_path / "model", {"a": b"1", "b": b"2"})
    assert names(tmp_path / "model") == ["a", "b"]
    with pytest.raises(OSError, match=r"already exists"):
        atomic.folder(tmp_path / "model", {"c": b"3"})
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["a", "b"]


def test_an_error_names_the_file_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match=r"directory: '.*/taken'"):
        atomic.write(tmp_path / "taken", b"")

    monkeypatch.setattr(atomic, "token_hex", lambda count: "no/where")
    with pytest.raises(OSError, match=r"directory: '.*/new'"):
        atomic.create(tmp_path / "new", b"")
    with pytest.raises(OSError, match=r"directory: '.*/new'"):
        atomic.folder(tmp_path / "new", {})
    assert names(tmp_path) == ["taken"]


def test_private_files_are_for_their_owner(tmp_path: Path) -> None:
    atomic.create(tmp_path / "key", b"secret", private=True)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_sweeping_removes_what_killed_writes_left_and_nothing_else(tmp_path: Path) -> None:
    for name in (".file.abc.part", ".file2.abc.part", "file", "a.part", ".hidden"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / ".file.def.part").mkdir()
    atomic.sweep(tmp_path / "file")
    assert names(tmp_path) == [".file2.abc.part", ".hidden", "a.part", "file"]
    atomic.sweep(tmp_path)
    assert names(tmp_path) == [".hidden", "a.part", "file"]


@pytest.mark.fault(56)
def test_a_link_that_looks_like_a_leftover_is_removed_and_not_followed(tmp_path: Path) -> None:
    """In a shared folder anybody may put one there."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("kept")
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / ".a.up.1.part").symlink_to(elsewhere, target_is_directory=True)
    (shared / ".a.up.2.part").symlink_to(elsewhere / "kept")
    (shared / ".a.up.3.part").symlink_to("nowhere")
    (shared / ".a.up.4.part").mkdir()
    atomic.sweep(shared / "a.up")
    assert list(shared.iterdir()) == []
    assert (elsewhere / "kept").read_text() == "kept"
    assert atomic.create(shared / "a.up", b"upload")
