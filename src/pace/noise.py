"""Dropout whose draws belong to one client and one seed."""

import hashlib

import numpy as np
import torch
from torch import Tensor

from pace.graph import Graph


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
