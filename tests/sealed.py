"""Sealed jobs for the tests: keys drawn from names, so that every run has the same."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from pace.jobs import signatures
from pace.jobs.job import SERVER, Job
from tests.sites import NAMES, job


def key_of(name: str) -> Ed25519PrivateKey:
    """A key that everybody can guess."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def write_key(folder: Path, name: str) -> Path:
    path = folder / f"{name}.key"
    pem = key_of(name).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(pem)
    return path


def sealed_job(names: Sequence[str] = NAMES, **changes: object) -> Job:
    """A small sealed job; a new nonce each time."""
    settings: dict[str, object] = {
        "participants": tuple(names),
        "minimum": len(names),
        "keys": {name: signatures.public_key(key_of(name)) for name in (*names, SERVER)},
        "sealing": {name: signatures.sealing_key(key_of(name)) for name in names},
    }
    return job(**(settings | changes))
