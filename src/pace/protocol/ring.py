"""Sealed uploads: statistics in a ring, under masks that cancel in the sum over all clients.

`jobs.signatures` draws the masks from the secrets that clients share in pairs. To a server that holds
fewer than all uploads they are noise; all of them add up to the sum of the statistics. The answer is
the same for every client, and a receiver makes its own return of it.

A number x is the whole number nearest to x · 2^68, modulo 2^96: a high word of 64 bits and a low one
of 32. Sums in the ring are exact, in whatever order and whatever is added and taken away in between; a
sum of K numbers that stays below 2^27 is found again to K · 2^-69.

So many fractional bits because Δ is a quotient of two sums: in a column that no client activates both
are of the size of ε = 1e-12 a client, and of 32 fractional bits nothing would be left. With 68, Δ is
right to 2^-69 / ε < 2e-9 there as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pace.errors import NumberError, SealError, TooFewError

if TYPE_CHECKING:
    from pace.protocol.uploads import Message, Uploads

Array = np.ndarray[Any, Any]

FRACTION, LOW = 68, 32  # bits: of the fraction, and those of them that are in the low word
LIMIT = 2.0**27  # of a sum, on either side of zero
NUMBER = 12  # bytes
SHIFT, MASK = np.uint64(LOW), np.uint64(2**LOW - 1)
ONE = "one"  # of each client: their sum tells whether all masks have cancelled


@dataclass(frozen=True, eq=False)
class Ring:
    """Elements of the ring, of any shape, as uint64."""

    high: Array
    low: Array  # below 2^32

    def __add__(self, other: Ring) -> Ring:
        low = self.low + other.low
        return Ring(self.high + other.high + (low >> SHIFT), low & MASK)

    def __sub__(self, other: Ring) -> Ring:
        low = self.low - other.low  # below zero it ends in 32 ones, and the high word lends one
        return Ring(self.high - other.high - (low >> np.uint64(63)), low & MASK)

    def total(self) -> Ring:
        """The sum over the first dimension, of fewer than 2^32 elements."""
        low = self.low.sum(0, dtype=np.uint64)
        return Ring(self.high.sum(0, dtype=np.uint64) + (low >> SHIFT), low & MASK)

    def numbers(self) -> Tensor:
        """The numbers that the elements encode, in float64."""
        high = self.high.view(np.int64) * 2.0 ** (LOW - FRACTION)
        return torch.from_numpy(high + self.low * 2.0**-FRACTION)

    @property
    def words(self) -> Array:
        """High and low words in a last dimension of two, as int64, which torch has."""
        return np.stack([self.high, self.low], -1).view(np.int64)

    def to_bytes(self) -> bytes:
        """All high words, then all low words, little-endian."""
        return bytes(self.high.astype("<u8").tobytes() + self.low.astype("<u4").tobytes())


def from_numbers(message: Mapping[str, Tensor]) -> Ring:
    """The numbers of a message, one tensor after the other, each below `LIMIT` in size."""
    values = torch.cat([value.double().flatten() for value in message.values()]).numpy()
    scaled = values * 2.0 ** (FRACTION - LOW)
    whole = np.floor(scaled)
    low = np.rint((scaled - whole) * 2.0**LOW).astype(np.uint64)  # up to 2^32 itself
    return Ring(whole.astype(np.int64).view(np.uint64) + (low >> SHIFT), low & MASK)


def from_bytes(content: bytes, count: int, offset: int = 0) -> Ring:
    """`count` elements as `Ring.to_bytes` writes them."""
    high = np.frombuffer(content, "<u8", count, offset)
    low = np.frombuffer(content, "<u4", count, offset + high.nbytes)
    return Ring(high.astype(np.uint64), low.astype(np.uint64))


Seal = Callable[[Ring], Ring]  # adds this client's masks


def counted(statistic: Message) -> Message:
    """The statistic of one client with a one beside it, which tells when all masks have cancelled."""
    return {**statistic, ONE: torch.ones(1, dtype=torch.float64)}


def in_ring(statistic: Message, clients: int) -> Ring:
    """A statistic as elements of the ring, if the sum of so many will fit."""
    for name, value in statistic.items():
        if (highest := float(value.abs().max())) * clients >= LIMIT:
            raise NumberError(
                f"{name!r} cannot be sealed: {clients} times {highest:.3g} may exceed {LIMIT:.3g}"
            )
    return from_numbers(statistic)


def opened_sum(uploads: Uploads, clients: int) -> Message:
    """The sum of all clients' statistics; memory for one batch of uploads."""
    if len(uploads) != clients:
        raise TooFewError(
            f"{len(uploads)} of {clients} sealed uploads are here: open all together or not at all"
        )
    sums: dict[str, Ring] = {}
    for batch in uploads.batches():
        for name, words in batch.items():
            part = Ring(*np.moveaxis(words.numpy().view(np.uint64), -1, 0)).total()
            sums[name] = sums[name] + part if name in sums else part
    total = {name: value.numbers() for name, value in sums.items()}
    if float(total.pop(ONE)) != clients:
        raise SealError("the masks do not cancel: a client has another key or job; make a new job")
    return total
