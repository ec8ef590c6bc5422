"""Carriers and moments of single clients as the batches that the server reads."""

from collections.abc import Sequence

import torch

from pace.merging.carrier import Carrier, stack
from pace.merging.consensus import Batch
from pace.merging.moments import Moments


def in_batches(pairs: Sequence[tuple[Carrier, Moments]], size: int = 4) -> list[Batch]:
    """`size` clients at a time."""
    batches: list[Batch] = []
    for begin in range(0, len(pairs), size):
        carriers, moments = zip(*pairs[begin : begin + size], strict=True)
        batches.append(
            (
                {name: stack([each[name] for each in carriers]) for name in carriers[0]},
                {name: torch.stack([each[name] for each in moments]) for name in moments[0]},
            )
        )
    return batches
