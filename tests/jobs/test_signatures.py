import base64
import stat
from pathlib import Path

import pytest

from pace.errors import FileError, SettingError, SignatureError
from pace.jobs import signatures

STATEMENT = {"kind": signatures.UPLOAD, "job": "ab" * 32, "name": "north"}


def pair(folder: Path, name: str = "north") -> tuple[Path, str]:
    path = folder / f"{name}.key"
    return path, signatures.new_keys(path, folder / f"{name}.pub")


def test_a_signature_is_72_bytes_and_the_same_each_time(tmp_path: Path) -> None:
    path, public = pair(tmp_path)
    key = signatures.load_key(path)
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
    signed = signatures.sign(b"frame", signatures.load_key(path), **STATEMENT)
    with pytest.raises(SignatureError, match="does not fit"):
        signatures.verify(signed, public, **(STATEMENT | other))


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    path, public = pair(tmp_path)
    signed = signatures.sign(b"frame", signatures.load_key(path), **STATEMENT)
    for place in range(len(signed)):
        changed = bytearray(signed)
        changed[place] ^= 1
        with pytest.raises(SignatureError):
            signatures.verify(bytes(changed), public, **STATEMENT)


def test_another_key_is_refused(tmp_path: Path) -> None:
    path, _ = pair(tmp_path)
    _, other = pair(tmp_path, "south")
    signed = signatures.sign(b"frame", signatures.load_key(path), **STATEMENT)
    with pytest.raises(SignatureError, match="is signed by key"):
        signatures.verify(signed, other, **STATEMENT)


def test_private_keys_are_for_their_owner_and_never_replaced(tmp_path: Path) -> None:
    path, public = pair(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert signatures.read_public_key(tmp_path / "north.pub") == public
    (tmp_path / "edited.pub").write_text(f"\ufeff{public}\r\n", encoding="utf-8")
    assert signatures.read_public_key(tmp_path / "edited.pub") == public
    with pytest.raises(FileError, match="already exists"):
        pair(tmp_path)
    assert signatures.public_key(signatures.load_key(path)) == public


@pytest.mark.fault(31)
def test_a_key_that_was_put_there_before_is_never_adopted(tmp_path: Path) -> None:
    """Whoever put it there knows it; a link to nothing is in the way as well."""
    path, public = pair(tmp_path)
    (tmp_path / "north.pub").unlink()
    path.chmod(0o644)
    before = path.read_bytes()
    with pytest.raises(FileError, match=r"north\.key already exists"):
        pair(tmp_path)
    assert path.read_bytes() == before
    assert not (tmp_path / "north.pub").exists()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match=r"north\.key already exists"):
        pair(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
    path.unlink()
    (tmp_path / "north.pub").write_text(public)
    with pytest.raises(FileError, match=r"north\.pub already exists"):
        pair(tmp_path)
    assert not path.exists()


@pytest.mark.fault(31)
def test_a_key_has_one_spelling(tmp_path: Path) -> None:
    """43 characters of base64 have two spare bits: three other spellings of the same 32 bytes."""
    _, public = pair(tmp_path)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = letters.index(public[-2])
    for spare in range(1, 4):
        other = f"{public[:-2]}{letters[last ^ spare]}="
        with pytest.raises(SettingError, match="not a public key"):
            signatures.key_bytes(other)
    assert signatures.key_bytes(public)


def order(y: int) -> int:
    """The order of a point of the curve -x² + y² = 1 + d x² y², by adding it to itself."""
    prime = signatures.FIELD
    d = -121665 * pow(121666, -1, prime) % prime
    square = (y * y - 1) * pow(d * y * y + 1, -1, prime) % prime
    x = pow(square, (prime + 3) // 8, prime)
    if x * x % prime != square:
        x = x * pow(2, (prime - 1) // 4, prime) % prime
    assert x * x % prime == square
    at, count = (x, y), 1
    while at != (0, 1):
        (x1, y1), t = at, d * at[0] * x * at[1] * y
        at = (
            (x1 * y + x * y1) * pow(1 + t, -1, prime) % prime,
            (y1 * y + x1 * x) * pow(1 - t, -1, prime) % prime,
        )
        count += 1
    return count


@pytest.mark.fault(31)
def test_keys_under_which_anybody_can_sign_are_refused(tmp_path: Path) -> None:
    """The weak points in every encoding, also with y beyond the field, which libraries wrap."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    assert sorted(map(order, signatures.SMALL_ORDER)) == [1, 2, 4, 8, 8]
    identity = bytes([1]) + bytes(31)
    Ed25519PublicKey.from_public_bytes(identity).verify(identity + bytes(32), b"nobody signed this")
    beyond = range(signatures.FIELD, 2**255)
    for y in (*signatures.SMALL_ORDER, *beyond):
        for sign in (0, signatures.SIGN):
            encoded = (y | sign).to_bytes(32, "little")
            public = signatures.KIND + base64.b64encode(encoded).decode()
            with pytest.raises(SettingError, match="small order"):
                signatures.key_bytes(public)
    assert signatures.key_bytes(pair(tmp_path)[1])


def test_a_private_key_in_place_of_a_public_one_is_named_and_not_shown(tmp_path: Path) -> None:
    path, _ = pair(tmp_path)
    with pytest.raises(SettingError, match=r"north\.key is not a public key") as caught:
        signatures.read_public_key(path)
    assert path.read_text().splitlines()[1][:8] not in str(caught.value)


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"ed25519:AAAA")
    with pytest.raises(SettingError, match="not a public key"):
        signatures.read_public_key(tmp_path / "x")
    with pytest.raises(FileError, match="not a private key"):
        signatures.load_key(tmp_path / "x")
    with pytest.raises(FileError, match="cannot read"):
        signatures.load_key(tmp_path / "y")
