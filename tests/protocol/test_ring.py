"""Fixed point in the ring of 2^96, against Python's whole numbers."""

import math
from fractions import Fraction

import numpy as np
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pace.protocol import ring
from pace.protocol.ring import Ring

MODULUS = 2**96
NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


def whole(element: Ring) -> list[int]:
    """The elements as Python's whole numbers."""
    pairs = zip(element.high.tolist(), element.low.tolist(), strict=True)
    return [high * 2**32 + low for high, low in pairs]


def of(values: list[float]) -> Ring:
    return ring.from_numbers({"x": torch.tensor(values, dtype=torch.float64)})


@given(st.lists(NUMBERS, min_size=1, max_size=8))
@example([0.0, -0.0, 1.0, -1.0, 2.0**-68, -(2.0**-68), 2.0**-70, 1e6, -1e-300])
@example([math.nextafter(2.0**26, 0), -(2.0**26), 0.1, -0.1, 2.0**-36 * (1 - 2.0**-40)])
@settings(max_examples=300)
def test_an_element_is_the_nearest_whole_number_of_2_to_the_minus_68(values: list[float]) -> None:
    for value, element in zip(values, whole(of(values)), strict=True):
        assert element == round(Fraction(value) * 2**68) % MODULUS


@given(st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1, max_size=9))
@settings(max_examples=200)
def test_sums_are_exact_and_found_again(clients: list[list[float]]) -> None:
    elements = [of(values) for values in clients]
    stacked = Ring(np.stack([e.high for e in elements]), np.stack([e.low for e in elements]))
    total = stacked.total()
    expected = [
        sum(round(Fraction(values[place]) * 2**68) for values in clients) for place in range(3)
    ]
    assert whole(total) == [each % MODULUS for each in expected]
    for number, each in zip(total.numbers().tolist(), expected, strict=True):
        assert abs(Fraction(number) - Fraction(each, 2**68)) <= abs(each) * Fraction(1, 2**120)


@given(st.data())
@settings(max_examples=200)
def test_adding_and_taking_away_are_those_of_the_ring(data: st.DataObject) -> None:
    element = st.integers(0, MODULUS - 1)
    ends = st.sampled_from([0, 1, 2**32 - 1, 2**32, 2**64 - 1, 2**95, MODULUS - 1])
    one, other = data.draw(element | ends), data.draw(element | ends)
    left, right = (
        Ring(np.array([each >> 32], np.uint64), np.array([each & 0xFFFFFFFF], np.uint64))
        for each in (one, other)
    )
    assert whole(left + right) == [(one + other) % MODULUS]
    assert whole(left - right) == [(one - other) % MODULUS]


def test_bytes_are_high_words_and_then_low_words() -> None:
    element = Ring(np.array([1, 2], np.uint64), np.array([3, 4], np.uint64))
    content = element.to_bytes()
    assert content == bytes.fromhex("0100000000000000 0200000000000000 03000000 04000000")
    assert whole(ring.from_bytes(b"xy" + content, 2, 2)) == whole(element)
    assert len(content) == 2 * ring.NUMBER
