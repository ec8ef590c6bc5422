"""Pairwise masks: what a client adds to its upload so that only the sum over all can be read.

Every two participants share a secret. One adds the stream of numbers that the secret gives, the other
takes it away, so that over all of them nothing is left:

    secret_ij = HKDF-SHA256(X25519(i, j), salt = the job's digest, info = the pair's names)
    sealed_i  = statistic_i + Σ_{j after i} stream(secret_ij) - Σ_{j before i} stream(secret_ij)

The stream is ChaCha20's. Another job has another digest, so no stream is used twice. A participant's
exchange key is derived from its signing key, which also signs the public half: there is one file to
keep, and no one can put another key in its place.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric import x25519
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pace.errors import SettingError
from pace.jobs import signatures
from pace.protocol import ring
from pace.protocol.ring import Ring
from pace.protocol.sealing import Seal

if TYPE_CHECKING:
    from pace.jobs.signatures import Key

KIND = "x25519:"
PUBLIC = 32  # bytes, and a signature after them
PURPOSE = "sealing key"
START = bytes(16)  # ChaCha20's counter and nonce: a secret gives one stream


def sealing_secret(key: Key) -> X25519PrivateKey:
    """The private half that goes with a signing key."""
    derived = _derived(key.private_bytes_raw(), salt=b"", info=b"pace " + PURPOSE.encode())
    return x25519.X25519PrivateKey.from_private_bytes(derived)


def sealing_key(key: Key) -> str:
    """The public half, signed, as jobs list it."""
    public = sealing_secret(key).public_key().public_bytes_raw()
    signed = signatures.sign(public, key, kind=PURPOSE, job="", name="")
    return _encoded(signed)


def _encoded(signed: bytes) -> str:
    """The one spelling: base64 has spare bits."""
    return KIND + base64.b64encode(signed).decode()


def sealing_key_bytes(public: str, signer: str) -> bytes:
    """The 32 bytes of a sealing key, if its owner's signing key signed them."""
    try:
        signed = base64.b64decode(public.removeprefix(KIND), validate=True)
    except ValueError:
        signed = b""
    if len(signed) != PUBLIC + signatures.TRAILER or public != _encoded(signed):
        raise SettingError(
            f"{public[:40]!r} is not a sealing key: expected the second line of a .pub file that "
            "`pace keys new` makes"
        )
    return signatures.verify(signed, signer, kind=PURPOSE, job="", name="")


def read_sealing_key(path: Path) -> str:
    """The sealing key in a public file."""
    signer, *rest = signatures.read_lines(path)
    if not rest:
        raise SettingError(
            f"{path} has no sealing key in its second line: give the .pub file that `pace keys new` "
            "makes"
        )
    sealing_key_bytes(rest[0], signer)
    return rest[0]


def ephemeral_seals(names: Sequence[str], salt: bytes) -> list[Seal]:
    """Masks of keys that are drawn here: for clients that are all in this process."""
    secrets = {name: x25519.X25519PrivateKey.generate() for name in names}
    publics = {name: key.public_key().public_bytes_raw() for name, key in secrets.items()}
    return [masks(secrets[name], name, publics, salt) for name in names]


def masks(secret: X25519PrivateKey, name: str, publics: Mapping[str, bytes], salt: bytes) -> Seal:
    """Add the streams shared with those after `name` in the alphabet, take away the others'."""

    def sealed(numbers: Ring) -> Ring:
        for other in sorted(publics.keys() - {name}):
            try:
                public = x25519.X25519PublicKey.from_public_bytes(publics[other])
                shared = secret.exchange(public)
            except ValueError:  # a point of low order: the secret would be no secret
                raise SettingError(f"the sealing key of {other!r} cannot be used") from None
            pair = "\n".join(sorted((name, other)))
            mask = stream(_derived(shared, salt=salt, info=pair.encode()), len(numbers.high))
            numbers = numbers + mask if name < other else numbers - mask
        return numbers

    return sealed


def stream(secret: bytes, count: int) -> Ring:
    """`count` elements of the ring, drawn by ChaCha20."""
    encryptor = Cipher(ChaCha20(secret, START), mode=None).encryptor()
    return ring.from_bytes(encryptor.update(bytes(ring.NUMBER * count)), count)


def _derived(secret: bytes, *, salt: bytes, info: bytes) -> bytes:
    return HKDF(SHA256(), length=32, salt=salt, info=info).derive(secret)
