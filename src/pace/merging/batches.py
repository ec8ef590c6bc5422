"""Many messages as one: every tensor gets a first dimension, for the messages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

CACHE = 2**20  # bytes that a core has near at hand, more or less


@runtime_checkable
class Stacks(Protocol):
    """Messages that are had by the stack for less than one by one."""

    def stacks(self, size: int) -> Iterator[Mapping[str, Tensor]]: ...


@dataclass(frozen=True)
class Stacked:
    """Messages that are made by the stack, for whoever takes them one by one."""

    stacks: Iterable[Mapping[str, Tensor]]

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        for stack in self.stacks:
            for parts in zip(*(value.unbind() for value in stack.values()), strict=True):
                yield dict(zip(stack, parts, strict=True))


def runs(stack: Tensor) -> Iterator[slice]:
    """Parts of a stack, equally long and so short that each, in float64, stays in the cache."""
    count = math.ceil(8 * stack.numel() / CACHE)
    step = max(1, math.ceil(len(stack) / max(1, count)))
    return (slice(begin, begin + step) for begin in range(0, len(stack), step))


def stacks(messages: Iterable[Mapping[str, Tensor]], size: int) -> Iterator[Mapping[str, Tensor]]:
    """The messages, `size` at a time."""
    if isinstance(messages, Stacks):
        yield from messages.stacks(size)
        return
    remaining = iter(messages)
    while some := list(islice(remaining, size)):
        yield {name: torch.stack([each[name] for each in some]) for name in some[0]}
