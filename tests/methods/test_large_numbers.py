"""One admitted upload cannot make anybody's return infinite, whatever the method: row 35."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pace.errors import NumberError, PaceError
from pace.methods import METHODS, make
from pace.protocol import steps, wire
from pace.protocol.federation import Federation
from pace.protocol.method import LARGEST_NUMBER
from pace.protocol.number_formats import KINDS
from tests.graphs import clients, federation

FINITE = 3e38  # nearly the largest float32
EXACT = [
    name for name in METHODS if make(name).numbers == KINDS[0] and name not in ("local", "fedgta")
]


@cache
def honest(method: str) -> tuple[Federation, list[bytes]]:
    agreed = federation(make(method), epochs=2)
    return agreed, [steps.fit(graph, agreed)[1] for graph in clients(3)]


def changed(frame: bytes, agreed: Federation, large: float, draws: list[int]) -> bytes:
    """The upload with tensors made huge: as a constant, with signs by place, scaled, or as they are."""
    message = {}
    opened = wire.decode(frame)
    for place, (name, value) in enumerate(opened.message.items()):
        how = draws[place % len(draws)]
        moment = name.endswith("/m")
        signs = torch.where(torch.arange(value.numel()).view(value.shape) % 2 == 0, 1.0, -1.0)
        message[name] = (
            value if how == 0 or moment
            else torch.full_like(value, large) if how == 1
            else large * signs if how == 2
            else (value * (large / value.abs().max().clamp_min(1e-30))).clamp(-large, large)
        )  # fmt: skip
    with np.errstate(invalid="ignore"):  # no number of int8 stands for such a one
        return wire.encode(message, agreed.digest, numbers=agreed.numbers)


@pytest.mark.fault(42)
@pytest.mark.parametrize("method", [name for name in METHODS if name != "local"])
@settings(max_examples=12)
@given(
    large=st.sampled_from([1e3, 1e6, LARGEST_NUMBER, 1e15, FINITE]),
    draws=st.lists(st.integers(0, 3), min_size=1, max_size=6),
)
def test_every_return_is_finite_whatever_is_admitted(
    method: str, large: float, draws: list[int]
) -> None:
    agreed, uploads = honest(method)
    hostile = changed(uploads[1], agreed, large, draws)
    try:
        steps.check_upload(hostile, agreed)
    except PaceError:
        return
    for returned in steps.merge([uploads[0], hostile, uploads[2]], agreed):
        for name, value in wire.decode(returned).message.items():
            assert value.isfinite().all(), name


@pytest.mark.fault(42)
@pytest.mark.parametrize("method", EXACT)
def test_numbers_too_large_to_compute_with_are_not_admitted(method: str) -> None:
    agreed, uploads = honest(method)
    hostile = changed(uploads[0], agreed, math.nextafter(FINITE, 0), [1])
    with pytest.raises(NumberError, match=r"expected at most 1"):
        steps.check_upload(hostile, agreed)
