"""Dropout whose draws belong to one client and one seed."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pace.graph import Graph

Array = np.ndarray[Any, Any]


def scale(dropout: float) -> float:
    """What a kept number is multiplied by, so that the mean stays."""
    return 2**16 / (2**16 - round(dropout * 2**16))


class Noise:
    """A stream of draws keyed by the seed and the client's edges.

    It is made on the CPU and kept in bits, so it is the same on every device and whoever else trains
    beside it. A keep probability of one half costs one random bit a number; any other is rounded to
    a multiple of 2^-16.
    """

    def __init__(self, dropout: float, seed: int, graph: Graph) -> None:
        key = hashlib.sha256(f"dropout {seed} {graph.nodes} ".encode())
        key.update(graph.edges.cpu().numpy().tobytes())
        self.bits = np.random.SFC64(np.frombuffer(key.digest(), dtype=np.uint32).tolist())
        self.threshold = round(dropout * 2**16)
        self.scale = scale(dropout)

    def __call__(self, hidden: Tensor) -> Tensor:
        """Zero with probability `dropout`, scaled so that the mean stays."""
        if self.threshold == 0:
            return hidden
        keep = self.keep(hidden.numel()).reshape(hidden.shape)
        return hidden * (keep.to(hidden.device) * self.scale)

    def mask_(self, hidden: Tensor) -> Tensor:
        """Zero the same numbers in place, and leave the scale to the caller."""
        if self.threshold:
            hidden.mul_(self.keep(hidden.numel()).reshape(hidden.shape).to(hidden.device))
        return hidden

    def keep(self, count: int) -> Tensor:
        """`count` independent draws, one where a number is kept and zero where it is dropped."""
        fair = self.threshold == 2**15
        words = self.bits.random_raw(-(-count // (64 if fair else 4)))
        if fair:
            return torch.from_numpy(np.unpackbits(words.view(np.uint8), count=count))
        kept = words.view(np.uint16)[:count] >= self.threshold
        return torch.from_numpy(kept.view(np.uint8))

    def packed(self, epochs: int, shapes: Sequence[tuple[int, int]]) -> list[Array]:
        """The draws of that many epochs for activations of these shapes, eight to a byte by row."""
        fair = self.threshold == 2**15
        words = [-(-rows * width // (64 if fair else 4)) for rows, width in shapes]
        raw = self.bits.random_raw(epochs * sum(words)).reshape(epochs, sum(words))
        found = []
        for (rows, width), end, length in zip(shapes, np.cumsum(words), words, strict=True):
            part = np.ascontiguousarray(raw[:, end - length : end])
            if fair and width % 8 == 0:
                found.append(part.view(np.uint8)[:, : rows * width // 8].reshape(epochs, rows, -1))
                continue
            kept: Array = (
                np.unpackbits(part.view(np.uint8), axis=1, count=rows * width)
                if fair
                else part.view(np.uint16)[:, : rows * width] >= self.threshold
            )
            found.append(np.packbits(kept.reshape(epochs, rows, width), axis=2))
        return found
