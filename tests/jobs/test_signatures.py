import stat
from pathlib import Path

import pytest

from pace.errors import FileError, SettingError, SignatureError
from pace.jobs import signatures

STATEMENT = {"kind": signatures.UPLOAD, "job": "ab" * 32, "name": "north"}


def pair(folder: Path, name: str = "north") -> tuple[Path, str]:
    path = folder / f"{name}.key"
    return path, signatures.new(path, folder / f"{name}.pub")


def test_a_signature_is_72_bytes_and_the_same_each_time(tmp_path: Path) -> None:
    path, public = pair(tmp_path)
    key = signatures.load(path)
    signed = signatures.sign(b"frame", key, **STATEMENT)
    assert len(signed) == len(b"frame") + signatures.TRAILER == len(b"frame") + 72
    assert signatures.sign(b"frame", key, **STATEMENT) == signed
    assert signatures.verify(signed, public, **STATEMENT) == b"frame"


@pytest.mark.fault(13, 14)
@pytest.mark.parametrize(
    "other", [{"kind": signatures.RETURN}, {"job": "cd" * 32}, {"name": "south"}]
)
def test_a_signature_is_good_for_one_purpose(tmp_path: Path, other: dict[str, str]) -> None:
    path, public = pair(tmp_path)
    signed = signatures.sign(b"frame", signatures.load(path), **STATEMENT)
    with pytest.raises(SignatureError, match="does not fit"):
        signatures.verify(signed, public, **(STATEMENT | other))


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    path, public = pair(tmp_path)
    signed = signatures.sign(b"frame", signatures.load(path), **STATEMENT)
    for place in range(len(signed)):
        changed = bytearray(signed)
        changed[place] ^= 1
        with pytest.raises(SignatureError):
            signatures.verify(bytes(changed), public, **STATEMENT)


def test_another_key_is_refused(tmp_path: Path) -> None:
    path, _ = pair(tmp_path)
    _, other = pair(tmp_path, "south")
    signed = signatures.sign(b"frame", signatures.load(path), **STATEMENT)
    with pytest.raises(SignatureError, match="is signed by key"):
        signatures.verify(signed, other, **STATEMENT)


def test_private_keys_are_for_their_owner_and_never_replaced(tmp_path: Path) -> None:
    path, public = pair(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert signatures.read_public(tmp_path / "north.pub") == public
    (tmp_path / "edited.pub").write_text(f"\ufeff{public}\r\n", encoding="utf-8")
    assert signatures.read_public(tmp_path / "edited.pub") == public
    with pytest.raises(FileError, match="there already"):
        pair(tmp_path)
    assert signatures.public_of(signatures.load(path)) == public


def test_interrupted_between_the_two_files_the_public_half_is_made_again(tmp_path: Path) -> None:
    path, public = pair(tmp_path)
    (tmp_path / "north.pub").unlink()
    before = path.read_bytes()
    assert pair(tmp_path) == (path, public)
    assert path.read_bytes() == before
    assert signatures.read_public(tmp_path / "north.pub") == public
    path.unlink()
    with pytest.raises(FileError, match=r"north\.pub is there already"):
        pair(tmp_path)


def test_a_private_key_in_place_of_a_public_one_is_named_and_not_shown(tmp_path: Path) -> None:
    path, _ = pair(tmp_path)
    with pytest.raises(SettingError, match=r"north\.key is not a public key") as caught:
        signatures.read_public(path)
    assert path.read_text().splitlines()[1][:8] not in str(caught.value)


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"ed25519:AAAA")
    with pytest.raises(SettingError, match="not a public key"):
        signatures.read_public(tmp_path / "x")
    with pytest.raises(FileError, match="not a private key"):
        signatures.load(tmp_path / "x")
    with pytest.raises(FileError, match="cannot read"):
        signatures.load(tmp_path / "y")


def test_without_the_library_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(SettingError, match=r"pip install 'pace-fgl\[crypto\]'"):
        pair(tmp_path)
