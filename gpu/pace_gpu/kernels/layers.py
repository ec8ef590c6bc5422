"""The layers of every client and seed: their gradient, and dropout from NumPy's own stream."""

# ruff: noqa: N803 - Triton's constants are written in capitals

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from pace.training.optimiser import Gradient
from pace_gpu.blocks import apart, beside
from pace_gpu.masks import DropoutMasks

LYING = (0, 3, 1, 2)  # (clients, in, seeds, out), as an optimiser stores a weight


class DeviceGradient(Gradient):
    """A cohort's gradient by kernels of ours, which read and write tensors as products leave them.

    A kernel holds a row of a layer in one tile: no layer above the features may be wider than WIDEST.
    """

    def linear(self, message: Tensor, layer: int) -> Tensor:
        weight, rows = self.weights[layer].permute(LYING), message.shape[2]
        clients, inner, seeds, outer = weight.shape
        out = message.new_empty(clients, rows, seeds * outer)
        _linear[(triton.cdiv(rows, 32), clients * seeds)](
            *(beside(message), weight, out, rows, seeds, inner, outer),
            *(32, 32, block(outer)),
            num_warps=2,
        )
        return apart(out, seeds)

    def error(self, output: Tensor) -> Tensor:
        clients, seeds, rows, classes = output.shape
        flat = beside(output).contiguous()
        _error[(triton.cdiv(rows, 16), clients * seeds)](
            *(flat, self.biases[-1], self.target.minus, self.target.share, rows, seeds, classes),
            *(16, block(classes)),
            num_warps=1,
        )
        return apart(flat, seeds).mT

    def slopes(self, error: Tensor, message: Tensor, layer: int) -> None:
        weight, bias = self.weight_slopes[layer].permute(LYING), self.bias_slopes[layer]
        clients, inner, seeds, width = weight.shape
        rows, wide = message.shape[2], block(width)
        _outer[(triton.cdiv(inner, 16), clients * seeds)](
            *(beside(error.mT), beside(message), weight, bias, rows, seeds, inner, width),
            *(min(128, 8192 // wide), 16, wide),  # some GPUs hold only 99 KiB of tiles
            num_warps=4,
        )

    def below(self, spread: Tensor, hidden: Tensor, layer: int) -> Tensor:
        weight, rows, gate = self.weights[layer].permute(LYING), hidden.shape[2], beside(hidden)
        clients, inner, seeds, width = weight.shape
        out = torch.empty_like(gate)
        _below[(triton.cdiv(rows, 64), clients * seeds)](
            *(beside(spread), weight, gate, out, rows, seeds, inner, width),
            *(64, block(inner), block(width)),
            num_warps=4,
        )
        return apart(out, seeds).mT

    def alone(self, error: Tensor) -> None:
        dense = beside(error.mT)
        clients, rows, width = dense.shape
        chunks = triton.cdiv(rows, 128)
        parts = dense.new_empty(clients, chunks, width)
        _sums[(chunks, triton.cdiv(width, 32), clients)](
            dense, parts, rows, width, chunks, 128, 32, num_warps=4
        )
        torch.sum(parts, 1, out=self.bias_slopes[0].flatten(1))


def block(width: int) -> int:
    """The sides of a tile that hold this many numbers; tensors of tiles are at least 16 wide."""
    return max(16, int(triton.next_power_of_2(width)))


def activate(output: Tensor, bias: Tensor, draws: DropoutMasks, layer: int) -> None:
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


def draw(states: Tensor, lengths: Tensor, raw: Tensor) -> None:
    """NumPy's SFC64 for every member at once: `raw` (epochs, members, words), and its new states."""
    epochs, members, words = raw.shape
    _draw[(members,)](states, lengths, raw, epochs, members, words, num_warps=1)


@triton.jit(do_not_specialize=["rows"])
def _linear(
    messages, weight, out, rows, seeds, inner, outer,
    R: tl.constexpr, INNER: tl.constexpr, OUTER: tl.constexpr,
):  # fmt: skip
    client, seed = (tl.program_id(1) // seeds).to(tl.int64), tl.program_id(1) % seeds
    row = tl.program_id(0) * R + tl.arange(0, R)
    line = (client * rows + row)[:, None] * seeds + seed  # of a row, this seed's part
    column = tl.arange(0, OUTER)
    total = tl.zeros((R, OUTER), tl.float32)
    for begin in range(0, inner, INNER):
        term = begin + tl.arange(0, INNER)
        real = (row < rows)[:, None] & (term < inner)[None, :]
        left = tl.load(messages + line * inner + term[None, :], mask=real, other=0.0)
        places = (
            weight + ((client * inner + term) * seeds + seed)[:, None] * outer + column[None, :]
        )
        real = (term < inner)[:, None] & (column < outer)[None, :]
        right = tl.load(places, mask=real, other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    real = (row < rows)[:, None] & (column < outer)[None, :]
    tl.store(out + line * outer + column[None, :], total, mask=real)


@triton.jit(do_not_specialize=["rows"])
def _error(
    output, bias, minus, share, rows, seeds, classes, R: tl.constexpr, CLASSES: tl.constexpr
):
    client, seed = (tl.program_id(1) // seeds).to(tl.int64), tl.program_id(1) % seeds
    row = tl.program_id(0) * R + tl.arange(0, R)
    column = tl.arange(0, CLASSES)
    real = (row < rows)[:, None] & (column < classes)[None, :]
    places = output + ((client * rows + row)[:, None] * seeds + seed) * classes + column[None, :]
    offset = (client * seeds + seed) * classes
    logit = tl.load(places, mask=real, other=0.0)
    logit += tl.load(bias + offset + column, mask=column < classes, other=0.0)[None, :]
    logit = tl.where((column < classes)[None, :], logit, -float("inf"))
    chance = tl.exp(logit - tl.max(logit, 1)[:, None])
    chance = chance / tl.sum(chance, 1)[:, None]
    label = minus + (client * classes + column)[None, :] * rows + row[:, None]
    part = tl.load(share + client * rows + row, mask=row < rows, other=0.0)
    wrong = chance * part[:, None] + tl.load(label, mask=real, other=0.0)
    tl.store(places, wrong, mask=real)


@triton.jit(do_not_specialize=["rows"])
def _outer(
    errors, messages, weight, bias, rows, seeds, inner, outer,
    R: tl.constexpr, INNER: tl.constexpr, OUTER: tl.constexpr,
):  # fmt: skip
    client, seed = (tl.program_id(1) // seeds).to(tl.int64), tl.program_id(1) % seeds
    term = tl.program_id(0) * INNER + tl.arange(0, INNER)
    column = tl.arange(0, OUTER)
    total = tl.zeros((INNER, OUTER), tl.float32)
    alone = tl.zeros((R, OUTER), tl.float32)
    for begin in range(0, rows, R):
        row = begin + tl.arange(0, R)
        line = (client * rows + row) * seeds + seed
        real = (row < rows)[None, :] & (term < inner)[:, None]
        left = tl.load(messages + line[None, :] * inner + term[:, None], mask=real, other=0.0)
        real = (row < rows)[:, None] & (column < outer)[None, :]
        right = tl.load(errors + line[:, None] * outer + column[None, :], mask=real, other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
        alone += right
    places = weight + ((client * inner + term) * seeds + seed)[:, None] * outer + column[None, :]
    tl.store(places, total, mask=(term < inner)[:, None] & (column < outer)[None, :])
    if tl.program_id(0) == 0:
        own = bias + (client * seeds + seed) * outer + column
        tl.store(own, tl.sum(alone, 0), mask=column < outer)


@triton.jit(do_not_specialize=["rows"])
def _below(
    spread, weight, hidden, out, rows, seeds, inner, outer,
    R: tl.constexpr, INNER: tl.constexpr, OUTER: tl.constexpr,
):  # fmt: skip
    client, seed = (tl.program_id(1) // seeds).to(tl.int64), tl.program_id(1) % seeds
    row = tl.program_id(0) * R + tl.arange(0, R)
    line = (client * rows + row)[:, None] * seeds + seed
    term, column = tl.arange(0, INNER), tl.arange(0, OUTER)
    real = (row < rows)[:, None] & (column < outer)[None, :]
    left = tl.load(spread + line * outer + column[None, :], mask=real, other=0.0)
    places = weight + ((client * inner + term) * seeds + seed)[None, :] * outer + column[:, None]
    real = (term < inner)[None, :] & (column < outer)[:, None]
    right = tl.load(places, mask=real, other=0.0)
    slope = tl.dot(left, right, input_precision="ieee")
    real = (row < rows)[:, None] & (term < inner)[None, :]
    gate = tl.load(hidden + line * inner + term[None, :], mask=real, other=0.0)
    tl.store(out + line * inner + term[None, :], tl.where(gate > 0, slope, 0.0), mask=real)


@triton.jit(do_not_specialize=["rows", "chunks"])
def _sums(dense, parts, rows, width, chunks, R: tl.constexpr, ACROSS: tl.constexpr):
    client = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * R + tl.arange(0, R)
    across = tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    real = (row < rows)[:, None] & (across < width)[None, :]
    places = dense + (client * rows + row)[:, None] * width + across[None, :]
    total = tl.sum(tl.load(places, mask=real, other=0.0), 0)
    tl.store(
        parts + (client * chunks + tl.program_id(0)) * width + across, total, mask=across < width
    )


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
