"""Dropout of clients × seeds at once, from the very streams that each has alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pace.training.dropout import Dropout, masks_per_word
from pace_gpu.blocks import apart, beside, own_kernels

PREFETCHED_BYTES = 2**28  # bytes of random numbers that are drawn ahead


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
        raw = self.raw.view(torch.uint8 if self.kind == 1 else torch.int16)
        drawn = raw.index_select(0, now).flatten()
        at = word * 8 + place // 8 if self.kind == 1 else word * 4 + place
        bits = drawn[at.clamp(max=len(drawn) - 1)]
        if self.kind == 1:
            kept = bits >> (7 - place % 8).byte() & 1
        else:
            kept = (bits.int() & 0xFFFF) >= self.threshold
        kept = kept.view(self.clients, self.seeds, height, width)
        real = torch.arange(height, device=device) < self.counts[layer][:, None]
        return kept * real[:, None, :, None]
