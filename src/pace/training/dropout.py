"""Dropout whose draws belong to one client and one seed."""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from pace.graph import Graph

AHEAD = 2**19  # bytes of masks that are drawn ahead on a CPU, which stay in its cache


def scale(dropout: float) -> float:
    """What a kept number is multiplied by, so that the mean stays."""
    return 2**16 / (2**16 - threshold(dropout))


def threshold(dropout: float) -> int:
    """The 16-bit numbers below it mean that a number is dropped; some are always kept."""
    return min(round(dropout * 2**16), 2**16 - 1)


class Dropout:
    """A stream of draws keyed by the seed and the client's edges.

    The stream is NumPy's SFC64, in bits, so it is the same on every device and in every batch. A keep
    probability of one half costs one random bit a number; any other is rounded to a multiple of 2^-16.
    """

    def __init__(self, dropout: float, seed: int, graph: Graph) -> None:
        key = hashlib.sha256(f"dropout {seed} {graph.nodes} ".encode())
        for block in graph.edge_blocks():
            key.update(block.data)
        self.bits = np.random.SFC64(np.frombuffer(key.digest(), dtype=np.uint32).tolist())
        self.threshold = threshold(dropout)
        self.scale = scale(dropout)

    def __call__(self, hidden: Tensor) -> Tensor:
        """Zero with probability `dropout`, scaled so that the mean stays."""
        if self.threshold == 0:
            return hidden
        (keep,) = self.kept(1, [hidden.numel()])
        return hidden * (keep.reshape(hidden.shape).to(hidden.device) * self.scale)

    def kept(self, epochs: int, counts: Sequence[int]) -> Iterator[Tensor]:
        """For each of `counts` and in every epoch so many independent draws, (epochs, count).

        One where a number is kept and zero where it is dropped; layer after layer in each epoch.
        """
        per_word = masks_per_word(self.threshold)
        lengths = [-(-count // per_word) for count in counts]
        words = self.bits.random_raw(epochs * sum(lengths)).reshape(epochs, sum(lengths))
        parts = np.split(words, np.cumsum(lengths)[:-1], axis=1)
        for part, count in zip(parts, counts, strict=True):
            bits = np.ascontiguousarray(part)
            if per_word == 64:
                ones = np.unpackbits(bits.view(np.uint8), axis=1, count=count)
            else:
                ones = (bits.view(np.uint16)[:, :count] >= self.threshold).view(np.uint8)
            yield torch.from_numpy(ones)


class Activation:
    """Bias, ReLU and dropout of one client in place, without the scale; masks are drawn ahead."""

    def __init__(self, dropout: Dropout, shapes: Sequence[tuple[int, int]]) -> None:
        self.dropout, self.shapes = dropout, shapes
        self.masks: Iterator[Tensor] | None = None

    def __call__(self, output: Tensor, bias: Tensor, layer: int) -> Tensor:
        hidden = output.add_(bias).clamp_min_(0)
        if self.dropout.threshold == 0:
            return hidden
        self.masks = self.masks or drawn(self.dropout, self.shapes, hidden.device)
        return hidden.mul_(next(self.masks))


def drawn(
    dropout: Dropout, shapes: Sequence[tuple[int, int]], device: torch.device
) -> Iterator[Tensor]:
    """The masks of each epoch, layer by layer, as float32."""
    counts = [rows * width for rows, width in shapes]
    ahead = max(1, AHEAD // (4 * max(1, sum(counts))))
    while True:
        by_layer = [
            ones.to(device).float().view(-1, *shape).unbind()
            for ones, shape in zip(dropout.kept(ahead, counts), shapes, strict=True)
        ]
        yield from chain.from_iterable(zip(*by_layer, strict=True))


def masks_per_word(threshold: int) -> int:
    """How many draws 64 random bits are good for: bits if the chance is one half, else quarters."""
    return 64 if threshold == 2**15 else 4
