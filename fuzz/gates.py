"""Hostile logits against every gate: what is adopted is finite and no worse than Local.

    python fuzz/gates.py [--draws 1000000] [--seed 0] [GATE ...]

A draw is a receiver: logits of Local and of one or two Externals on a few nodes, some of which are
validation nodes. Externals are made to confuse arithmetic: huge and nearly equal over the classes,
denormal, infinite, one class at 1e38, equal rows, next to Local. The weights come from CNLL, the
mixture, the guarded mixture, or from nowhere: the promise must hold for any. Every receiver goes to
every gate, as methods call it: CNLL takes many at once, the others each alone. Prints, as JSON, how
many draws each gate had and how many of its choices would have harmed without the promise.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pace.gates import Gate, Weights, cnll, mix, no_worse_than_local, weigh_receivers
from pace.gates import gate as guards
from pace.methods import Pace, PaceFull
from pace_study.baselines.duo import PaceDuo

Array = NDArray[np.float32]
Flags = NDArray[np.bool_]
Random = np.random.Generator
TOGETHER = 250  # receivers that are drawn and judged at once
FEWEST = 1, 12  # nodes: below ten validation nodes the guard has no folds to look at
REPORTED = 20_000  # draws after which it says how far it is
SLACK = 1e-12  # of two float64 sums that are added up differently


@dataclass(frozen=True, eq=False)
class Receiver:
    """Logits of all its nodes by Local and each External, and its validation nodes."""

    sets: list[Tensor]
    validation: Tensor
    labels: Tensor

    @cached_property
    def validated(self) -> list[Tensor]:
        return [logits[self.validation] for logits in self.sets]


@dataclass(frozen=True, eq=False)
class Receivers:
    """Several that have as many nodes, classes and Externals as each other."""

    sets: list[Array]
    """Of Local and each External, (receivers, nodes, classes)."""
    validation: Flags
    labels: NDArray[np.int64]
    """Of every node, (receivers, nodes)."""

    def __iter__(self) -> Iterator[Receiver]:
        labels = torch.from_numpy(self.labels)
        masks = torch.from_numpy(self.validation)
        columns = zip(*map(torch.from_numpy, self.sets), strict=True)
        for sets, mask, those in zip(columns, masks, labels, strict=True):
            yield Receiver(list(sets), mask, those[mask])


def powers(random: Random, local: Array, low: float, high: float) -> Array:
    """A power of ten for each receiver."""
    return (10.0 ** random.uniform(low, high, (len(local), 1, 1))).astype(np.float32)


def tied(random: Random, local: Array) -> Array:
    """Huge and nearly equal over the classes: a slope is then rounding noise."""
    noise = random.standard_normal(local.shape).astype(np.float32)
    return powers(random, local, 2, 38) * (1 + np.float32(1e-7) * noise)


def one_class(random: Random, local: Array) -> Array:
    made, each = local.copy(), np.arange(len(local))
    classes = random.integers(local.shape[2], size=len(local))
    made[each, :, classes] = random.choice([1e38, -1e38, 3.4e38], (len(local), 1))
    return made


def equal_rows(random: Random, local: Array) -> Array:
    return np.repeat(local[:, :1] * powers(random, local, -3, 37), local.shape[1], axis=1)


def denormal(random: Random, local: Array) -> Array:
    scale = 10.0 ** random.uniform(-46, -37, (len(local), 1, 1))
    return np.asarray(scale * random.standard_normal(local.shape), dtype=np.float32)


def infinite(random: Random, local: Array) -> Array:
    """One number that is none, often on a node that no gate looks at."""
    made = local.copy()
    flat = made.reshape(len(made), local.shape[1] * local.shape[2])  # of no receiver too
    places = random.integers(flat.shape[1], size=len(made))
    flat[np.arange(len(made)), places] = random.choice([np.inf, -np.inf, np.nan], len(made))
    return made


def overflowing(random: Random, local: Array) -> Array:
    """Finite, but a weight above one makes it infinite."""
    return (np.sign(random.standard_normal(local.shape)) * 3.3e38).astype(np.float32)


def multiple(random: Random, local: Array) -> Array:
    signs: Array = random.choice(np.array([-1, 1], np.float32), (len(local), 1, 1))
    return local * signs * powers(random, local, -40, 38)


def beside(random: Random, local: Array) -> Array:
    """Local but for its last bits."""
    ways: Array = random.choice(np.array([-np.inf, np.inf], np.float32), (len(local), 1, 1))
    return np.nextafter(local, ways)


def plain(random: Random, local: Array) -> Array:
    return local + random.standard_normal(local.shape).astype(np.float32)


Kind = Callable[[Random, Array], Array]
KINDS: tuple[Kind, ...] = (
    tied, one_class, equal_rows, denormal, infinite, overflowing, multiple, beside, plain,
)  # fmt: skip


@np.errstate(over="ignore", invalid="ignore")  # infinities are wanted here
def drawn(
    random: Random, count: int, *, fewest: int = 1, kinds: tuple[Kind, ...] = KINDS
) -> Receivers:
    """As many receivers, of `fewest` to thirteen more nodes, with Externals of these kinds."""
    shape = (count, int(random.integers(fewest, fewest + 13)), int(random.integers(2, 6)))
    scales = random.choice([1e-40, 1e-3, 1.0, 1.0, 5.0, 30.0, 1e6], (count, 1, 1))
    local = (scales * random.standard_normal(shape)).astype(np.float32)
    labels = random.integers(0, shape[2], shape[:2])
    right = labels[..., None] == np.arange(shape[2])
    pleasing = random.random((count, 1, 1)) < 0.3  # a hostile server may know what pleases
    local += np.where(right & pleasing, scales, 0).astype(np.float32)
    externals = []
    for _ in range(random.integers(1, 3)):
        external, which = np.empty_like(local), random.integers(0, len(kinds), count)
        for place, kind in enumerate(kinds):
            external[which == place] = kind(random, local[which == place])
        externals.append(external)
    return Receivers([local, *externals], random.random(shape[:2]) < 0.8, labels)


Chooser = Callable[[Sequence[Receiver], Random], list[Weights]]


def by(gate: Gate) -> Chooser:
    """As methods call it; CNLL weighs one External."""
    most = 2 if gate is cnll else None

    def choose(receivers: Sequence[Receiver], random: Random) -> list[Weights]:
        return weigh_receivers(gate, [(each.validated[:most], each.labels) for each in receivers])

    return choose


def nobody(receivers: Sequence[Receiver], random: Random) -> list[Weights]:
    """Weights that no gate would choose, some of them no weights at all."""
    odd = [0.0, 1.0, 0.5, -1.0, 2.0, 1e-45, 1e38, 1e300, np.inf, np.nan, random.random()]
    places = (random.integers(0, len(odd), len(receiver.sets)) for receiver in receivers)
    return [tuple(odd[place] for place in those) for those in places]


CHOOSERS: dict[str, Chooser] = {
    "cnll": by(Pace().gate),
    "mixture": by(PaceDuo(level=1.0).gate),
    "guard": by(PaceDuo(level=0.5).gate),
    "chance": by(PaceFull().gate),  # what a job proposes by default
    "nobody": nobody,
}


def shared() -> ExitStack:
    """Guards that differ in their level alone ask for one mixture, and its folds, of a receiver."""
    stack = ExitStack()
    for name in ("weigh", "held_out"):
        stack.enter_context(patch.object(guards, name, remembered(getattr(guards, name))))
    return stack


def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """With a memory of the last receivers, by the labels' tensor."""
    known: dict[int, tuple[Tensor, Any]] = {}

    def again(sets: Sequence[Tensor], labels: Tensor, *others: object) -> Any:
        if id(labels) not in known:
            if len(known) >= TOGETHER:
                known.clear()
            known[id(labels)] = labels, function(sets, labels, *others)
        return known[id(labels)][1]

    return again


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def risks(logits: Array, of: Receivers) -> NDArray[np.float64]:
    """The validation NLLs written out in NumPy, beside the one that the promise uses."""
    wide = logits.astype(np.float64)
    above = wide - np.take_along_axis(wide, of.labels[..., None], 2)  # the true class's
    top = above.max(2, keepdims=True)
    losses = top[..., 0] + np.log(np.exp(above - top).sum(2))
    mean: NDArray[np.float64] = np.where(of.validation, losses, 0).sum(1) / of.validation.sum(1)
    return mean


def harmful(logits: Array, of: Receivers) -> Flags:
    """Which receivers would be worse off with these logits than with Local's.

    Without validation nodes nothing is known to be no worse.
    """
    local = risks(of.sets[0], of)
    sound = np.isfinite(logits).all((1, 2)) & of.validation.any(1)
    return ~(sound & (risks(logits, of) <= local + SLACK * (1 + local)))


def judged(
    of: Receivers, receivers: Sequence[Receiver], choices: Sequence[Weights]
) -> tuple[int, int]:
    """How many would be harmed by what was chosen, and how many by what the promise makes of it."""
    logits: tuple[list[Tensor], list[Tensor]] = ([], [])  # as chosen, as promised
    changed: tuple[list[bool], list[bool]] = ([], [])
    for receiver, chosen in zip(receivers, choices, strict=True):
        sets = receiver.sets[: len(chosen)]
        promised = no_worse_than_local(sets, chosen, receiver.validation, receiver.labels)
        for place, weights in enumerate((chosen, promised)):
            logits[place].append(mix(sets, weights))
            changed[place].append(logits[place][-1] is not sets[0])
    without, broken = (
        int((harmful(torch.stack(each).numpy(), of) & other).sum())
        for each, other in zip(logits, changed, strict=True)
    )
    return without, broken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=1_000_000, help="of receivers, for each gate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("gates", nargs="*", help=f"of {', '.join(CHOOSERS)}; all if none is named")
    given = parser.parse_args()
    torch.set_num_threads(1)
    began, random = time.process_time(), np.random.default_rng(given.seed)
    names = given.gates or list(CHOOSERS)
    harmed, seconds = np.zeros((len(names), 2), dtype=int), np.zeros(len(names))
    for done in range(0, given.draws, TOGETHER):
        fewest = FEWEST[done // TOGETHER % len(FEWEST)]
        of = drawn(random, min(TOGETHER, given.draws - done), fewest=fewest)
        receivers = list(of)
        for place, name in enumerate(names):
            started = time.process_time()
            harmed[place] += judged(of, receivers, CHOOSERS[name](receivers, random))
            seconds[place] += time.process_time() - started
        if done % REPORTED == 0:
            print(f"{done:,}, broken {harmed[:, 1].tolist()}", file=sys.stderr, flush=True)
    counts: dict[str, object] = {
        name: {"harmful without": without, "broken": broken, "seconds": round(took, 1)}
        for name, (without, broken), took in zip(names, harmed.tolist(), seconds, strict=True)
    }
    counts |= {"draws": given.draws, "seconds": round(time.process_time() - began, 1)}
    print(json.dumps(counts))
    sys.exit(bool(harmed[:, 1].any()))


if __name__ == "__main__":
    with torch.inference_mode(), shared():
        main()
