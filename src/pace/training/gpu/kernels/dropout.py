"""Dropout from NumPy's own stream, drawn and applied on the device."""

# ruff: noqa: N803 - Triton's constants are written in capitals

from __future__ import annotations

from typing import Protocol

import torch
import triton
import triton.language as tl
from torch import Tensor


class DropoutMasks(Protocol):
    """What a kernel reads of `pace.training.dropout.DropoutMasks`."""

    raw: Tensor
    step_count: Tensor
    firsts: Tensor
    counts: list[Tensor]
    kind: int
    seeds: int
    prefetched_epochs: int
    words: int
    threshold: int


def activate(output: Tensor, bias: Tensor, draws: DropoutMasks, layer: int) -> Tensor:
    """Bias, ReLU and the dropout of this epoch, in place."""
    clients, rows, width = output.shape
    grid = (triton.cdiv(rows, 8), triton.cdiv(width, 128), clients)
    sizes = (rows, draws.seeds, width // draws.seeds)
    if draws.kind == 0:
        bits = (draws.step_count, draws.step_count, draws.step_count, draws.step_count, 1, 0, 0)
    else:
        raw = draws.raw.view(torch.uint8 if draws.kind == 1 else torch.uint16)
        tables = (draws.step_count, draws.firsts[layer], draws.counts[layer])
        bits = (raw, *tables, draws.prefetched_epochs, draws.words, draws.threshold)
    _activate[grid](output, bias, *sizes, *bits, draws.kind, 8, 128, num_warps=2)
    return output


def draw(states: Tensor, lengths: Tensor, raw: Tensor) -> None:
    """NumPy's SFC64 for every member at once: `raw` (epochs, members, words), and its new states."""
    epochs, members, words = raw.shape
    _draw[(members,)](states, lengths, raw, epochs, members, words, num_warps=1)


@triton.jit(do_not_specialize=["rows", "ahead", "words", "threshold"])
def _activate(
    hidden, bias, rows, seeds, width,
    raw, taken, firsts, counts, ahead, words, threshold,
    KIND: tl.constexpr, R: tl.constexpr, ACROSS: tl.constexpr,
):  # fmt: skip
    client = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * R + tl.arange(0, R)
    across = tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    inside = (row < rows)[:, None] & (across < seeds * width)[None, :]
    at = (client * rows + row)[:, None] * (seeds * width) + across[None, :]
    value = tl.load(hidden + at, mask=inside, other=0.0)
    value += tl.load(bias + client * seeds * width + across, mask=across < seeds * width)[None, :]
    value = tl.maximum(value, 0.0, propagate_nan=tl.PropagateNan.ALL)
    if KIND > 0:
        inside_client = (row < tl.load(counts + client))[:, None] & inside
        now = tl.load(taken).to(tl.int64) % ahead
        member = (now * tl.num_programs(2) + client) * seeds + across // width
        word = (member * words + tl.load(firsts + client))[None, :]
        place = row[:, None] * width + (across % width)[None, :]
        if KIND == 1:
            byte = tl.load(raw + word * 8 + place // 8, mask=inside_client, other=0)
            kept = (byte >> (7 - place % 8)) & 1
        else:
            kept = tl.load(raw + word * 4 + place, mask=inside_client, other=0) >= threshold
        value *= kept.to(tl.float32)
    tl.store(hidden + at, value, mask=inside)


@triton.jit(do_not_specialize=["epochs", "members", "words"])
def _draw(states, lengths, raw, epochs, members, words):
    member = tl.program_id(0)
    a, b = tl.load(states + 4 * member), tl.load(states + 4 * member + 1)
    c, count = tl.load(states + 4 * member + 2), tl.load(states + 4 * member + 3)
    length = tl.load(lengths + member)
    for epoch in range(epochs):
        line = raw + (epoch * members + member).to(tl.int64) * words
        for word in range(length):
            drawn = a + b + count
            count += 1
            a = b ^ (b >> 11)
            b = c + (c << 3)
            c = ((c << 24) | (c >> 40)) + drawn
            tl.store(line + word, drawn)
    tl.store(states + 4 * member, a)
    tl.store(states + 4 * member + 1, b)
    tl.store(states + 4 * member + 2, c)
    tl.store(states + 4 * member + 3, count)
