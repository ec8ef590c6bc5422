"""Messages in batches: every tensor has a first dimension, for the clients."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import torch
from torch import Tensor

BATCH = 64  # uploads that are read, and receivers that are answered, together
CACHE = 2**20  # bytes that a core has near at hand, more or less


def batches(messages: Iterable[Mapping[str, Tensor]]) -> Iterator[dict[str, Tensor]]:
    """The messages, `BATCH` at a time."""
    remaining = iter(messages)
    while several := list(islice(remaining, BATCH)):
        yield {name: torch.stack([each[name] for each in several]) for name in several[0]}


def unbatched(batch: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """The messages of a batch, one by one."""
    for values in zip(*(value.unbind() for value in batch.values()), strict=True):
        yield dict(zip(batch, values, strict=True))


def runs(batch: Tensor) -> Iterator[slice]:
    """Parts of a batch, equally long and so short that each, in float64, stays in the cache."""
    count = math.ceil(8 * batch.numel() / CACHE)
    step = max(1, math.ceil(len(batch) / max(1, count)))
    return (slice(begin, begin + step) for begin in range(0, len(batch), step))
