"""Ed25519 signatures under messages: who made them, and that they are unchanged.

A signed message is its frame followed by a trailer of 72 bytes: the first 8 bytes of the SHA-256 of
the signer's public key, then the signature. What is signed is the frame after a line that says what
it is (`pace upload`, `pace return` or `pace roll`), the job's digest, and the participant it comes
from or goes to. So a signature is good for one message of one job, in one direction.
"""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pace.errors import FileError, SettingError, SignatureError
from pace.io import atomic, untrusted

Key = Ed25519PrivateKey

KIND = "ed25519:"
FINGERPRINT, SIGNATURE = 8, 64
TRAILER = FINGERPRINT + SIGNATURE  # bytes
LARGEST = 2**14  # bytes of a key file
UPLOAD, RETURN, ROLL = "upload", "return", "roll"
FIELD = 2**255 - 19  # of the curve
SIGN = 1 << 255  # the bit that says which of two x belongs to a y
EIGHTH = 2707385501144840649318225287225658788936804267575313519463743609750303402022
SMALL_ORDER = frozenset(
    {EIGHTH, FIELD - EIGHTH, 0, FIELD - 1, 1}
)  # y of points of order 8, 4, 2, 1


def new_keys(private: Path, public: Path) -> str:
    """Make a new pair of files, the private one readable by its owner only; the public key.

    A key that already exists is never adopted: who put it there may know it.
    """
    from pace.jobs import sealing  # which signs its keys by this module

    for path in (private, public):
        if os.path.lexists(path):
            raise _in_the_way(path)
    key = ed25519.Ed25519PrivateKey.generate()
    encoded = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    both = f"{public_key(key)}\n{sealing.sealing_key(key)}\n"
    for path, content in ((private, encoded), (public, both.encode())):
        if not atomic.create(path, content, private=path is private):
            raise _in_the_way(path)
    return public_key(key)


def _in_the_way(path: Path) -> FileError:
    return FileError(
        f"{path} already exists: a lost key cannot be made again, so nothing was replaced; choose "
        "another name, or, if an interrupted run left it, remove it"
    )


def load_key(path: Path) -> Key:
    """The private key of a file."""
    try:
        found = serialization.load_pem_private_key(untrusted.read(path, LARGEST), None)
    except OSError as error:
        raise FileError(f"cannot read the key {path}: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise FileError(
            f"{path} is not a private key without a password: make one with `pace keys new`"
        ) from error
    if not isinstance(found, ed25519.Ed25519PrivateKey):
        raise FileError(f"{path} is a key of another kind, expected Ed25519")
    key: Key = found
    return key


def public_key(key: Key) -> str:
    """The public key, as jobs list it."""
    return _encoded(key.public_key().public_bytes_raw())


def _encoded(found: bytes) -> str:
    return KIND + base64.b64encode(found).decode()


def read_public_key(path: Path) -> str:
    """The public key of a file, checked."""
    return read_lines(path)[0]


def read_lines(path: Path) -> list[str]:
    """The lines of a public file: the public key, checked, and then perhaps a sealing key."""
    try:
        lines = untrusted.read(path, LARGEST).decode("utf-8-sig").strip().split("\n")
        lines = [line.strip() for line in lines]
        key_bytes(lines[0])
    except OSError as error:
        raise FileError(f"cannot read the public key {path}: {error.strerror}") from error
    except ValueError:  # whatever it is, nothing of it is shown: it may be a private key
        raise SettingError(
            f"{path} is not a public key: give the .pub file that `pace keys new` makes"
        ) from None
    return lines


def key_bytes(public: str) -> bytes:
    """The 32 bytes of a public key."""
    try:
        found = base64.b64decode(public.removeprefix(KIND), validate=True)
    except ValueError:
        found = b""
    if len(found) != 32 or public != _encoded(found):  # base64 has spare bits: one spelling only
        raise SettingError(
            f"{public[:40]!r} is not a public key: expected {KIND} and 44 characters, as in the "
            ".pub file that `pace keys new` makes"
        )
    if not strong_point(found):
        raise SettingError(
            f"{public!r} is a key of small order, under which anybody can sign: expected one that "
            "`pace keys new` made"
        )
    return found


def strong_point(encoded: bytes) -> bool:
    """Whether a key's bytes are written in the one canonical way and not of small order.

    Under a point whose order divides 8, signatures verify that no key made, and libraries let it pass.
    """
    y = int.from_bytes(encoded, "little") & ~SIGN
    return y < FIELD and y not in SMALL_ORDER


def fingerprint(public: str) -> bytes:
    return hashlib.sha256(key_bytes(public)).digest()[:FINGERPRINT]


def sign(frame: bytes, key: Key, *, kind: str, job: str, name: str) -> bytes:
    """The signed message. Ed25519 has no randomness: signing again gives the same bytes."""
    signature = key.sign(_statement(kind, job, name) + frame)
    return frame + fingerprint(public_key(key)) + signature


def signer(content: bytes) -> bytes:
    """The fingerprint of the key that a signed message says it was signed with."""
    return content[-TRAILER:-SIGNATURE]


def verify(content: bytes, public: str, *, kind: str, job: str, name: str) -> bytes:
    """The frame of a signed message, if this key signed it for this purpose."""
    frame, signature = content[:-TRAILER], content[-SIGNATURE:]
    if signer(content) != fingerprint(public):
        raise SignatureError(
            f"the {kind} is signed by key {signer(content).hex()}, expected "
            f"{fingerprint(public).hex()}"
        )
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(key_bytes(public)).verify(
            signature, _statement(kind, job, name) + frame
        )
    except InvalidSignature:
        raise SignatureError(
            f"the signature under this {kind} does not fit: it was changed on its way, or made for "
            "another job or receiver"
        ) from None
    return frame


def _statement(kind: str, job: str, name: str) -> bytes:
    return f"pace {kind}\n{job}\n{name}\n".encode()
