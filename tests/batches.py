"""Carriers and moments of single clients as the batches that the server reads."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from pace.merging import pack, unpack
from pace.merging.carrier import Carrier
from pace.merging.consensus import Batch
from pace.merging.moments import Moments


def in_batches(pairs: Sequence[tuple[Carrier, Moments]], size: int = 4) -> list[Batch]:
    """`size` clients at a time."""
    batches: list[Batch] = []
    for begin in range(0, len(pairs), size):
        carriers, moments = zip(*pairs[begin : begin + size], strict=True)
        batches.append((unpack(stacked(list(map(pack, carriers))), carriers[0]), stacked(moments)))
    return batches


def stacked(messages: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([message[name] for message in messages]) for name in messages[0]}
