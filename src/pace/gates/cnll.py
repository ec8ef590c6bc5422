"""Convex NLL calibration, CNLL (Section 4.4): one alpha on the logit segment."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from copy import copy

import torch
from torch import Tensor

BISECTIONS = 64  # Section 4.4
NARROWINGS = 12  # of the bracket, at most

Receiver = tuple[Tensor, Tensor, Tensor]  # Local's and External's validation logits, and the labels
Search = Generator[float, float, float]  # asks for slopes at alphas, and gives the alpha it found


def calibrate(local: Tensor, external: Tensor, labels: Tensor) -> float:
    """The alpha in [0, 1] whose blend has the least validation NLL, in float64.

        R'(α) = mean_v ( E_{c ~ p_α}[d_vc] - d_{v,y_v} ),   d = z_E - z_L

    R is convex, so R'(0) ≥ 0 selects Local, R'(1) ≤ 0 External, and bisection finds the root of R'
    in between. No validation nodes, or logits that are not finite: Local. A flat R: Local, the
    smallest minimiser. Rounding can spoil all of this where logits are huge: `gates.promise` compares
    what is adopted with Local, whatever was chosen here.
    """
    return calibrate_all([(local, external, labels)])[0]


def calibrate_all(receivers: Sequence[Receiver]) -> list[float]:
    """`calibrate` for many receivers at once, where their logits are: the same alphas, bit for bit.

    All searches go on in step, and every slope that is asked for next is computed in one batch. A
    receiver's rows are padded to a power of two, which changes no sum, and those of one size are a
    batch.
    """
    batches: dict[object, list[int]] = {}
    for place, (local, _, labels) in enumerate(receivers):
        if len(labels):
            key = (padded(len(labels)), local.shape[1], local.device)
            batches.setdefault(key, []).append(place)
    alphas = [0.0] * len(receivers)
    for places in batches.values():
        slopes = Slopes([receivers[place] for place in places])
        roots = in_step([search(rounding) for rounding in slopes.rounding], slopes)
        for place, alpha in zip(places, roots, strict=True):
            alphas[place] = alpha
    return alphas


def search(rounding: float) -> Search:
    """The alpha where a slope that never falls crosses zero, or the end of [0, 1] next to it."""
    first = yield 0.0
    last = yield 1.0
    if first >= 0:
        return 0.0
    if last <= 0:
        return 1.0
    below, above = yield from bracketed(first, last, rounding)
    return (yield from bisected(below, above))


def bisected(below: float = 0.0, above: float = 1.0) -> Search:
    """The middle after `BISECTIONS` halvings of [0, 1] by the sign of a slope that never falls.

    Its sign is known, and not asked for, up to `below`, where it is negative, and from `above` on,
    where it is positive.
    """
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if middle in (low, high):  # neighbours: no halving moves them any more
            break
        if middle <= below or (middle < above and (yield middle) < 0):
            low = middle
        else:
            high = middle
    return (low + high) / 2


def bracketed(
    first: float, last: float, rounding: float
) -> Generator[float, float, tuple[float, float]]:
    """Narrow bounds of the root of a rising slope, by false position (the Illinois form).

    At either bound the slope is further from zero than it can be rounded, so bisection with them ends
    at the same bits as without, after half of the evaluations.
    """
    ends = [(0.0, first), (1.0, last)]  # what the secant goes through
    bounds = [0.0, 1.0]

    def note(alpha: float, value: float) -> None:
        if abs(value) > rounding:
            side = int(value > 0)
            bounds[side] = (max, min)[side](bounds[side], alpha)

    before = None
    for _ in range(NARROWINGS):
        (low, under), (high, over) = ends
        alpha = (low * over - high * under) / (over - under)
        value = yield alpha
        note(alpha, value)
        if not abs(value) > rounding:
            width = 4 * rounding * (high - low) / (over - under)
            for near in (max(0.0, alpha - width), min(1.0, alpha + width)):
                note(near, (yield near))
            break
        side = int(value > 0)
        ends[side] = (alpha, value)
        if side == before:  # twice on one side: halve the other's weight
            ends[1 - side] = (ends[1 - side][0], ends[1 - side][1] / 2)
        before = side
    return bounds[0], bounds[1]


def in_step(searches: Sequence[Search], slopes: Slopes) -> list[float]:
    """What each search finds, whose receivers are those of `slopes`: all ask, all are answered."""
    alphas = [0.0] * len(searches)
    asked = [next(one) for one in searches]
    active = list(range(len(searches)))  # whose slopes are computed
    while active:
        going = []
        for number, value in enumerate(slopes([asked[place] for place in active])):
            place = active[number]
            try:
                asked[place] = searches[place].send(value)
                going.append(number)
            except StopIteration as end:
                alphas[place] = end.value
        if len(going) < len(active):
            slopes, active = slopes.only(going), [active[number] for number in going]
    return alphas


class Slopes:
    """R' of receivers with equally many padded rows, each at an alpha of its own."""

    def __init__(self, receivers: Sequence[Receiver]) -> None:
        counts = [len(labels) for _, _, labels in receivers]
        rows, (_, classes) = padded(max(counts)), receivers[0][0].shape
        # Rows come last, where a softmax over a few classes is fastest.
        logits = receivers[0][0].new_zeros(2, len(receivers), classes, rows, dtype=torch.float64)
        truth = torch.zeros(len(receivers), 1, rows, dtype=torch.int64, device=logits.device)
        for place, (local, external, labels) in enumerate(receivers):
            logits[0, place, :, : len(labels)] = local.t()
            logits[1, place, :, : len(labels)] = external.t()
            truth[place, 0, : len(labels)] = labels
        logits[:, ~torch.isfinite(logits).all(3).all(2).all(0)] = 0  # a flat R: Local
        largest = logits.abs().amax((0, 2, 3))
        self.rounding = (16 * sys.float_info.epsilon * (1 + largest + classes) * largest).tolist()
        self.local, self.external = logits
        self.displacement = self.external - self.local
        self.observed = self.displacement.gather(1, truth).squeeze(1)
        self.counts = torch.tensor(counts, dtype=torch.float64, device=logits.device)

    def only(self, places: Sequence[int]) -> Slopes:
        """Of some of the receivers."""
        part = copy(self)
        for name in ("local", "external", "displacement", "observed", "counts"):
            setattr(part, name, getattr(self, name)[list(places)])
        return part

    def __call__(self, alphas: Sequence[float]) -> list[float]:
        alpha = self.counts.new_tensor(alphas)[:, None, None]
        chances = ((1 - alpha) * self.local + alpha * self.external).softmax(1)
        expected = (chances * self.displacement).sum(1)
        slopes: list[float] = (pairwise_sum(expected - self.observed) / self.counts).tolist()
        return slopes


def padded(rows: int) -> int:
    """The next power of two."""
    return 1 << max(0, rows - 1).bit_length()


def pairwise_sum(values: Tensor) -> Tensor:
    """The sum over the last dimension, a power of two long, by adding its halves.

    Zeros at the end change no bit of it: a half of zeros is added to the other and is gone.
    """
    while values.shape[-1] > 1:
        first, second = values.chunk(2, -1)
        values = first + second
    return values.squeeze(-1)


def blend(local: Tensor, external: Tensor, alpha: float) -> Tensor:
    """z(α) = (1 - α) z_L + α z_E; at the ends the given logits themselves, bit for bit."""
    if alpha == 0:
        return local
    if alpha == 1:
        return external
    return (1 - alpha) * local + alpha * external


def slope(local: Tensor, external: Tensor, labels: Tensor, alpha: float) -> float:
    """R'(α): the displacement the blend expects less the displacement of the true labels."""
    return Slopes([(local, external, labels)])([alpha])[0]


def at_labels(sets: Tensor, labels: Tensor) -> Tensor:
    """z_{v,y_v} of each of (K, n, classes), (K, n)."""
    return sets.gather(2, labels.expand(len(sets), -1)[..., None]).squeeze(2)
