"""Which uploads count. Every refusal is one kind of error with a stable code."""

import math
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

from pace.errors import PaceError, WireError
from pace.jobs import signatures
from pace.jobs.admission import admit, exact_size
from pace.jobs.job import Job
from pace.protocol import steps, wire
from pace.protocol.method import Message
from tests.graphs import clients
from tests.sites import NAMES, job

JOB = job()


@cache
def honest() -> bytes:
    return steps.fit(clients(3)[0], JOB.federation)[1]


def message() -> dict[str, torch.Tensor]:
    return {
        name: value.clone() for name, value in steps.check_upload(honest(), JOB.federation).items()
    }


def framed(
    changed: Message, digest: bytes = JOB.federation.digest, answers: bytes = bytes(4)
) -> bytes:
    return wire.encode(changed, digest, answers)


def refused(content: bytes, sender: str = "north", made: Job = JOB) -> PaceError:
    with pytest.raises(PaceError) as caught:
        admit(content, sender, made)
    return caught.value


def test_an_honest_upload_is_admitted() -> None:
    admitted = admit(honest(), "north", JOB)
    assert admitted.name == "north"
    assert admitted.content == honest()


def changed(name: str, place: int, value: float) -> bytes:
    made = message()
    made[name].view(-1)[place] = value
    return framed(made)


def scaled(name: str, by: float) -> bytes:
    return framed({**message(), name: message()[name] * by})


def renamed(old: str, new: str) -> bytes:
    return framed({new if name == old else name: value for name, value in message().items()})


def with_version(version: int) -> bytes:
    frame = bytearray(honest())
    frame[4] = version
    return bytes(frame)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "size"),
    "truncated": (lambda: honest()[:-1], "size"),
    "longer": (lambda: honest() + b"\0", "size"),
    "random": (lambda: bytes(range(256)) * (len(honest()) // 256 + 1), "size"),
    "random of the right size": (lambda: b"\xa5" * len(honest()), "format"),
    "another version": (lambda: with_version(9), "version"),
    "a flipped bit": (
        lambda: honest()[:99] + bytes([honest()[99] ^ 1]) + honest()[100:],
        "damaged",
    ),
    "another job": (lambda: framed(message(), b"otherjob"), "other-job"),
    "a return": (lambda: framed(message(), answers=b"abcd"), "layout"),
    "another name": (lambda: renamed("0.bias", "0.bigs"), "layout"),
    "another order": (lambda: framed(dict(reversed(message().items()))), "layout"),
    "transposed": (lambda: framed({**message(), "1.weight": message()["1.weight"].t()}), "layout"),
    "NaN": (lambda: changed("0.bias", 3, math.nan), "not-finite"),
    "infinity": (lambda: changed("0.weight/R", 7, math.inf), "not-finite"),
    "negative moments": (lambda: changed("0.weight/m", 0, -0.5), "moment"),
    "moments × 1e6": (lambda: scaled("0.weight/m", 1e6), "moment"),
    "an update × 1e30": (lambda: scaled("0.weight/R", 1e30), "not-finite"),
}


@pytest.mark.fault(1, 4, 5, 6, 7)
@pytest.mark.parametrize("fault", HOSTILE)
def test_hostile_uploads_are_refused_by_kind(fault: str) -> None:
    make, code = HOSTILE[fault]
    error = refused(make())
    assert isinstance(error, WireError)
    assert error.code == code, error


@pytest.mark.fault(7)
@pytest.mark.parametrize("name", ["0.weight/m", "1.weight/m"])
def test_moments_that_are_all_zero_are_legal(name: str) -> None:
    """A client whose training neighbourhoods hold nothing sends these."""
    admit(framed({**message(), name: torch.zeros_like(message()[name])}), "north", JOB)


@pytest.mark.fault(1)
def test_every_single_flipped_byte_is_refused() -> None:
    frame = bytearray(honest())
    for place in range(len(frame)):
        frame[place] ^= 0x20
        assert refused(bytes(frame)).code in ("format", "version", "damaged")
        frame[place] ^= 0x20


@pytest.mark.fault(2)
def test_lengths_beyond_memory_are_refused_by_size_alone() -> None:
    table = b"\x01a\x02" + struct.pack("<II", 2**32 - 1, 2**32 - 1)
    frame = b"PACE\x01" + JOB.federation.digest + bytes(4) + b"\x01" + table
    assert refused(frame.ljust(exact_size(JOB), b"\0")).code in ("damaged", "layout")
    assert refused(frame).code == "size"


@pytest.mark.fault(14)
@pytest.mark.parametrize("sender", ["east", "", "North", "../north"])
def test_only_listed_participants_are_heard(sender: str) -> None:
    assert refused(honest(), sender).code == "unknown-participant"


def test_where_nobody_is_listed_a_name_must_still_be_one() -> None:
    everybody = job(participants=(), minimum=1)
    upload = steps.fit(clients(1)[0], everybody.federation)[1]
    assert admit(upload, "anyone", everybody).name == "anyone"
    assert refused(upload, "a/b", everybody).code == "unknown-participant"


@pytest.mark.fault(14)
def test_with_keys_only_the_key_says_who_it_is(tmp_path: Path) -> None:
    keys = {
        name: signatures.new_keys(tmp_path / f"{name}.key", tmp_path / f"{name}.pub")
        for name in (*NAMES, "server", "stranger")
    }
    made = job(keys={name: keys[name] for name in (*NAMES, "server")})
    frame = steps.fit(clients(3)[0], made.federation)[1]

    def signed(by: str, kind: str = signatures.UPLOAD, digest: str = made.digest) -> bytes:
        key = signatures.load_key(tmp_path / f"{by}.key")
        name = by if by in NAMES else "north"
        return signatures.sign(frame, key, kind=kind, job=digest, name=name)

    assert admit(signed("south"), "north", made).name == "south"
    assert refused(frame, "north", made).code == "size"
    assert refused(signed("stranger"), "north", made).code == "signature"
    assert refused(signed("server"), "north", made).code == "signature"
    assert refused(signed("north", kind=signatures.RETURN), "north", made).code == "signature"
    assert refused(signed("north", digest="00" * 32), "north", made).code == "signature"
    forged = bytearray(signed("north"))
    forged[40] ^= 1
    assert refused(bytes(forged), "north", made).code == "signature"
