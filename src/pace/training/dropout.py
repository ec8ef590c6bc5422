"""Dropout whose draws belong to one client and one seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pace.graph import Graph
from pace.training.gpu.blocks import apart, beside, own_kernels

PREFETCHED_BYTES = 2**28  # bytes of random numbers that are drawn ahead, on a GPU
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
        keep = self.keep(hidden.numel()).reshape(hidden.shape)
        return hidden * (keep.to(hidden.device) * self.scale)

    def keep(self, count: int) -> Tensor:
        """`count` independent draws, one where a number is kept and zero where it is dropped."""
        return self.kept(1, [count])[0]

    def kept(self, epochs: int, counts: Sequence[int]) -> list[Tensor]:
        """`keep` for each of `counts` in every epoch, one after the other: (epochs, count) each."""
        per_word = masks_per_word(self.threshold)
        lengths = [-(-count // per_word) for count in counts]
        words = self.bits.random_raw(epochs * sum(lengths)).reshape(epochs, sum(lengths))
        masks = []
        parts = np.split(words, np.cumsum(lengths)[:-1], axis=1)
        for part, count in zip(parts, counts, strict=True):
            bits = np.ascontiguousarray(part)
            if per_word == 64:
                ones = np.unpackbits(bits.view(np.uint8), axis=1, count=count)
            else:
                ones = (bits.view(np.uint16)[:, :count] >= self.threshold).view(np.uint8)
            masks.append(torch.from_numpy(ones))
        return masks


class Activation:
    """Bias, ReLU and dropout of one client in place, without the scale; masks are drawn ahead."""

    def __init__(self, dropout: Dropout, shapes: Sequence[tuple[int, int]]) -> None:
        self.dropout, self.shapes = dropout, shapes
        numbers = sum(rows * width for rows, width in shapes)
        self.ahead = max(1, AHEAD // (4 * max(1, numbers)))
        self.masks: Iterator[Tensor] = iter(())

    def __call__(self, output: Tensor, bias: Tensor, layer: int) -> Tensor:
        hidden = output.add_(bias).clamp_min_(0)
        if self.dropout.threshold == 0:
            return hidden
        mask = next(self.masks, None)
        if mask is None:
            self.masks = self.drawn(hidden.device)
            mask = next(self.masks)
        return hidden.mul_(mask)

    def drawn(self, device: torch.device) -> Iterator[Tensor]:
        """The masks of the next epochs, layer by layer, as float32."""
        kept = self.dropout.kept(self.ahead, [rows * width for rows, width in self.shapes])
        by_layer = [
            ones.to(device).float().view(-1, *shape).unbind()
            for ones, shape in zip(kept, self.shapes, strict=True)
        ]
        return (mask for epoch in zip(*by_layer, strict=True) for mask in epoch)


def masks_per_word(threshold: int) -> int:
    """How many draws 64 random bits are good for: bits if the chance is one half, else quarters."""
    return 64 if threshold == 2**15 else 4


class DropoutMasks:
    """The streams of clients × seeds, drawn ahead: by a GPU with kernels of ours, else by the CPU.

    An epoch's place is a number on the device, so that a captured step moves on by itself.
    """

    def __init__(
        self,
        dropouts: Sequence[Sequence[Dropout]],  # by client, then by seed
        rows: Sequence[Tensor],  # of each client in each hidden layer
        widths: Sequence[int],
        epochs: int,
        step_count: Tensor,  # steps so far
    ) -> None:
        self.dropouts = [dropout for seeds in dropouts for dropout in seeds]
        self.threshold = self.dropouts[0].threshold if rows else 0
        per_word = masks_per_word(self.threshold)
        self.kind = 0 if self.threshold == 0 else 1 if per_word == 64 else 2
        self.clients, self.seeds = len(dropouts), len(dropouts[0])
        self.step_count, self.counts, self.widths = step_count, rows, widths
        self.kernels: Any = own_kernels(step_count.device.type)
        if self.kind == 0:
            self.prefetched_epochs = max(1, epochs)
            return
        numbers = [count * width for count, width in zip(rows, widths, strict=True)]
        lengths = (torch.stack(numbers) + per_word - 1) // per_word  # (layers, clients)
        ends = lengths.cumsum(0)
        self.firsts = ends - lengths
        self.lengths = ends[-1].repeat_interleave(self.seeds)
        self.words = int(self.lengths.max())
        fitting = PREFETCHED_BYTES // (8 * self.words * len(self.dropouts))
        self.prefetched_epochs = max(1, min(epochs, fitting))
        shape = (self.prefetched_epochs, len(self.dropouts), self.words)
        self.raw = torch.empty(shape, dtype=torch.uint64, device=step_count.device)
        self.states = torch.from_numpy(
            np.stack([dropout.bits.state["state"]["state"] for dropout in self.dropouts])
        ).to(step_count.device)

    def refill(self) -> None:
        """Draw for the next epochs."""
        if self.kind == 0:
            return
        if self.kernels is not None:
            self.kernels.draw(self.states, self.lengths, self.raw)
            return
        drawn = np.zeros(self.raw.shape, dtype=np.uint64)
        for member, length in enumerate(self.lengths.tolist()):
            words = self.dropouts[member].bits.random_raw(self.prefetched_epochs * length)
            drawn[:, member, :length] = words.reshape(self.prefetched_epochs, length)
        self.raw.copy_(torch.from_numpy(drawn))

    def activate(self, output: Tensor, bias: Tensor, layer: int) -> Tensor:
        """Bias, ReLU and the dropout of this epoch, for outputs (clients, seeds, rows, width)."""
        if self.kernels is not None:
            hidden = beside(output).contiguous()
            self.kernels.activate(hidden, bias, self, layer)
            return apart(hidden, self.seeds)
        hidden = output.add_(bias).clamp_min_(0)
        return hidden if self.kind == 0 else hidden.mul_(self.keep(layer, output.shape[2]))

    def keep(self, layer: int, height: int) -> Tensor:
        """Ones and zeros of this epoch, (clients, seeds, rows, width); padded rows have none."""
        width, device = self.widths[layer], self.step_count.device
        place = torch.arange(height * width, device=device)
        member = torch.arange(len(self.dropouts), device=device) * self.words
        word = (member + self.firsts[layer].repeat_interleave(self.seeds))[:, None]
        now = (self.step_count % self.prefetched_epochs).long().reshape(1)
        if self.kind == 1:
            drawn = self.raw.view(torch.uint8).index_select(0, now).flatten()
            at = (word * 8 + place // 8).clamp(max=len(drawn) - 1)
            kept = drawn[at] >> (7 - place % 8).byte() & 1
        else:
            drawn = self.raw.view(torch.int16).index_select(0, now).flatten()
            at = (word * 4 + place).clamp(max=len(drawn) - 1)
            kept = (drawn[at].int() & 0xFFFF) >= self.threshold
        kept = kept.view(self.clients, self.seeds, height, width)
        real = torch.arange(height, device=device) < self.counts[layer][:, None]
        return kept * real[:, None, :, None]
