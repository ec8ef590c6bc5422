"""Keys of participants and server: Ed25519 signatures under messages, and pairwise masks of uploads.

A signed message is its frame followed by a trailer of 72 bytes: the first 8 bytes of the SHA-256 of
the signer's public key, then the signature. What is signed is a line that says what the frame is (`pace
upload`, `pace return` or `pace roll`), the job's digest, the participant it comes from or goes to, and
the frame's SHA-256. So a signature is good for one message of one job, in one direction, and who has
only the SHA-256 of an upload can check who sent it.

Masks are what a client adds to its upload so that only the sum over all can be read. Every two
participants share a secret. One adds the stream of numbers that the secret gives, the other takes it
away, so that over all of them nothing is left:

    secret_ij = HKDF-SHA256(X25519(i, j), salt = the job's digest, info = the pair's names)
    sealed_i  = statistic_i + Σ_{j after i} stream(secret_ij) - Σ_{j before i} stream(secret_ij)

The stream is ChaCha20's. Another job has another digest, so no stream is used twice. A participant's
exchange key is derived from its signing key, which also signs the public half: there is one file to
keep, and no one can put another key in its place.
"""

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pace.errors import FileError, SettingError, SignatureError
from pace.io import atomic, untrusted
from pace.protocol import Ring, Seal, ring

Key = ed25519.Ed25519PrivateKey

SERVER = "server"  # whose key signs returns
KIND, SEALING_KIND = "ed25519:", "x25519:"
FINGERPRINT, SIGNATURE = 8, 64
TRAILER = FINGERPRINT + SIGNATURE  # bytes
PUBLIC = 32  # bytes of a public key
LARGEST = 2**14  # bytes of a key file
UPLOAD, RETURN, ROLL, SEALING = "upload", "return", "roll", "sealing key"  # what is signed
EDITION, WITHDRAWAL, CERTIFICATE = "edition", "withdrawal", "certificate"
FIELD = 2**255 - 19  # of the curve
SIGN = 1 << 255  # the bit that says which of two x belongs to a y
EIGHTH = 2707385501144840649318225287225658788936804267575313519463743609750303402022
SMALL_ORDER = frozenset({EIGHTH, FIELD - EIGHTH, 0, FIELD - 1, 1})  # y of order 8, 8, 4, 2, 1


def new_keys(private: Path, public: Path) -> str:
    """Make a new pair of files, the private one readable by its owner only; the public key.

    A key that already exists is never adopted: who put it there may know it.
    """
    key = Key.generate()
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    encoded = key.private_bytes(pem, pkcs8, serialization.NoEncryption())
    both = f"{public_key(key)}\n{sealing_key(key)}\n"
    taken = [path for path in (private, public) if os.path.lexists(path)]
    for path, content in ((private, encoded), (public, both.encode())):
        if taken or not atomic.create(path, content, private=path is private):
            raise FileError(
                f"{[*taken, path][0]} already exists: a lost key cannot be made again, so nothing was "
                "replaced; choose another name, or, if an interrupted run left it, remove it"
            )
    return public_key(key)


def load_key(path: Path) -> Key:
    try:
        key = serialization.load_pem_private_key(untrusted.read(path, LARGEST), None)
    except OSError as error:
        raise FileError(f"cannot read the key {path}: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise FileError(
            f"{path} is not a private key without a password: make one with `pace keys new`"
        ) from error
    if not isinstance(key, Key):
        raise FileError(f"{path} is a key of another kind, expected Ed25519")
    return key


def public_key(key: Key) -> str:
    """The public key, as jobs list it."""
    return KIND + base64.b64encode(key.public_key().public_bytes_raw()).decode()


def read_public_key(path: Path) -> str:
    return _read_lines(path)[0]


def read_sealing_key(path: Path) -> str:
    """The sealing key in a public file, checked."""
    signer, *rest = _read_lines(path)
    if not rest:
        raise SettingError(
            f"{path} has no sealing key in its second line: give the .pub file that `pace keys new` "
            "makes"
        )
    sealing_key_bytes(rest[0], signer)
    return rest[0]


def _read_lines(path: Path) -> list[str]:
    """The lines of a public file: the public key, checked, and then perhaps a sealing key."""
    try:
        text = untrusted.read(path, LARGEST).decode("utf-8-sig")
        lines = [line.strip() for line in text.strip().split("\n")]
        key_bytes(lines[0])
    except OSError as error:
        raise FileError(f"cannot read the public key {path}: {error.strerror}") from error
    except ValueError:  # whatever it is, nothing of it is shown: it may be a private key
        raise SettingError(
            f"{path} is not a public key: give the .pub file that `pace keys new` makes"
        ) from None
    return lines


def _decoded(text: str, kind: str, size: int) -> bytes | None:
    """The bytes of a key in its one spelling: base64 has spare bits."""
    try:
        content = base64.b64decode(text.removeprefix(kind), validate=True)
    except ValueError:
        return None
    same = text == kind + base64.b64encode(content).decode()
    return content if same and len(content) == size else None


def key_bytes(public: str) -> bytes:
    """The 32 bytes of a public key, in the one canonical way and not of small order.

    Under a point whose order divides 8, signatures verify that no key made, and libraries let it pass.
    """
    encoded = _decoded(public, KIND, PUBLIC)
    if encoded is None:
        raise SettingError(
            f"{public[:40]!r} is not a public key: expected {KIND} and 44 characters, as in the "
            ".pub file that `pace keys new` makes"
        )
    y = int.from_bytes(encoded, "little") & ~SIGN
    if y >= FIELD or y in SMALL_ORDER:
        raise SettingError(
            f"{public!r} is a key of small order, under which anybody can sign: expected one that "
            "`pace keys new` made"
        )
    return encoded


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def fingerprint(public: str) -> bytes:
    return hashlib.sha256(key_bytes(public)).digest()[:FINGERPRINT]


def sign(frame: bytes, key: Key, *, kind: str, job: str, name: str) -> bytes:
    """The signed message. Ed25519 has no randomness: signing again gives the same bytes."""
    signature = key.sign(_statement(kind, job, name) + hashlib.sha256(frame).digest())
    return frame + fingerprint(public_key(key)) + signature


def signer(content: bytes) -> bytes:
    """The fingerprint of the key that a signed message says it was signed with."""
    return content[-TRAILER:-SIGNATURE]


def verify(content: bytes, public: str, *, kind: str, job: str, name: str) -> bytes:
    """The frame of a signed message, if this key signed it for this purpose."""
    frame = content[:-TRAILER]
    digest = hashlib.sha256(frame).digest()
    verify_digest(digest, content[-TRAILER:], public, kind=kind, job=job, name=name)
    return frame


def verify_digest(
    digest: bytes, trailer: bytes, public: str, *, kind: str, job: str, name: str
) -> None:
    """The same of a message of which only the SHA-256 is here."""
    if signer(trailer) != fingerprint(public):
        raise SignatureError(
            f"the {kind} is signed by key {signer(trailer).hex()}, expected "
            f"{fingerprint(public).hex()}"
        )
    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(key_bytes(public))
        key.verify(trailer[-SIGNATURE:], _statement(kind, job, name) + digest)
    except InvalidSignature:
        raise SignatureError(
            f"the signature under this {kind} does not fit: it was changed on its way, or made for "
            "another job or receiver"
        ) from None


def _statement(kind: str, job: str, name: str) -> bytes:
    return f"pace {kind}\n{job}\n{name}\n".encode()


def sealing_secret(key: Key) -> X25519PrivateKey:
    """The private half that goes with a signing key."""
    derived = _derived(key.private_bytes_raw(), salt=b"", info=f"pace {SEALING}".encode())
    return X25519PrivateKey.from_private_bytes(derived)


def sealing_key(key: Key) -> str:
    """The public half, signed, as jobs list it."""
    public = sealing_secret(key).public_key().public_bytes_raw()
    signed = sign(public, key, kind=SEALING, job="", name="")
    return SEALING_KIND + base64.b64encode(signed).decode()


def sealing_key_bytes(public: str, signer: str) -> bytes:
    """The 32 bytes of a sealing key, if its owner's signing key signed them."""
    signed = _decoded(public, SEALING_KIND, PUBLIC + TRAILER)
    if signed is None:
        raise SettingError(
            f"{public[:40]!r} is not a sealing key: expected the second line of a .pub file that "
            "`pace keys new` makes"
        )
    return verify(signed, signer, kind=SEALING, job="", name="")


def ephemeral_seals(names: Sequence[str], salt: bytes) -> list[Seal]:
    """Masks of keys that are drawn here: for clients that are all in this process."""
    secrets = {name: X25519PrivateKey.generate() for name in names}
    publics = {name: key.public_key().public_bytes_raw() for name, key in secrets.items()}
    return [masks(secrets[name], name, publics, salt) for name in names]


def masks(secret: X25519PrivateKey, name: str, publics: Mapping[str, bytes], salt: bytes) -> Seal:
    """Add the streams shared with those after `name` in the alphabet, take away the others'."""

    def sealed(numbers: Ring) -> Ring:
        count = len(numbers.high)
        for other in sorted(publics.keys() - {name}):
            try:
                shared = secret.exchange(x25519.X25519PublicKey.from_public_bytes(publics[other]))
            except ValueError:  # a point of low order: the secret would be no secret
                raise SettingError(f"the sealing key of {other!r} cannot be used") from None
            pair = "\n".join(sorted((name, other)))
            nonce = bytes(16)  # with the counter; a secret gives one stream
            stream = ChaCha20(_derived(shared, salt=salt, info=pair.encode()), nonce)
            drawn = Cipher(stream, mode=None).encryptor().update(bytes(ring.NUMBER * count))
            mask = ring.from_bytes(drawn, count)
            numbers = numbers + mask if name < other else numbers - mask
        return numbers

    return sealed


def _derived(secret: bytes, *, salt: bytes, info: bytes) -> bytes:
    return HKDF(SHA256(), length=32, salt=salt, info=info).derive(secret)
