"""Hostile logits against every gate: what is adopted is finite and no worse than Local.

    python fuzz/gates.py [--draws 1000000] [--seed 0]

A draw is a receiver: logits of Local and of one or two Externals on a few nodes, some of which are
validation nodes. Externals are made to confuse arithmetic: huge and nearly equal over the classes,
denormal, infinite, one class at 1e38, equal rows, next to Local. The weights come from CNLL, the
mixture, the guarded mixture, or from nowhere: the promise must hold for any. Prints, as JSON, how
many draws each had and how many of its choices would have harmed without the promise.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pace.gates.mixture import Weights, local_alone, mix
from pace.gates.promise import no_worse_than_local
from pace.methods import PaceDuo
from pace.methods.beyond.duo import Tempered
from pace.methods.pace import Pace

Array = NDArray[np.float32]
Random = np.random.Generator
SLACK = 1e-12  # of two float64 sums that are added up differently


@dataclass(frozen=True, eq=False)
class Draw:
    """A receiver: logits of all its nodes by Local and each External, and its validation nodes."""

    sets: list[Tensor]
    validation: Tensor
    labels: Tensor


def tied(random: Random, local: Array) -> Array:
    """Huge and nearly equal over the classes: a slope is then rounding noise."""
    huge = np.float32(10.0 ** random.uniform(2, 38))
    return huge * (1 + np.float32(1e-7) * random.standard_normal(local.shape).astype(np.float32))


def one_class(random: Random, local: Array) -> Array:
    made = local.copy()
    made[:, random.integers(local.shape[1])] = random.choice([1e38, -1e38, 3.4e38])
    return made


def equal_rows(random: Random, local: Array) -> Array:
    made = local.copy()
    made[:] = local[0] * np.float32(10.0 ** random.uniform(-3, 37))
    return made


def denormal(random: Random, local: Array) -> Array:
    scale = 10.0 ** random.uniform(-46, -37)
    return np.asarray(scale * random.standard_normal(local.shape), dtype=np.float32)


def infinite(random: Random, local: Array) -> Array:
    """One number that is none, often on a node that no gate looks at."""
    made = local.copy()
    made.flat[random.integers(made.size)] = random.choice([np.inf, -np.inf, np.nan])
    return made


def overflowing(random: Random, local: Array) -> Array:
    """Finite, but a weight above one makes it infinite."""
    return (np.sign(random.standard_normal(local.shape)) * 3.3e38).astype(np.float32)


def multiple(random: Random, local: Array) -> Array:
    return local * np.float32(random.choice([-1, 1]) * 10.0 ** random.uniform(-40, 38))


def beside(random: Random, local: Array) -> Array:
    """Local but for its last bits."""
    return np.nextafter(local, np.float32(random.choice([-np.inf, np.inf])))


def plain(random: Random, local: Array) -> Array:
    return local + random.standard_normal(local.shape).astype(np.float32)


KINDS = (
    tied, one_class, equal_rows, denormal, infinite, overflowing, multiple, beside, plain,
)  # fmt: skip


@np.errstate(over="ignore", invalid="ignore")  # infinities are wanted here
def draw_from(random: Random) -> Draw:
    shape = (int(random.integers(1, 14)), int(random.integers(2, 6)))
    scale = random.choice([1e-40, 1e-3, 1.0, 1.0, 5.0, 30.0, 1e6])
    local = (scale * random.standard_normal(shape)).astype(np.float32)
    labels = torch.from_numpy(random.integers(0, shape[1], shape[0]))
    if random.random() < 0.3:  # a hostile server may know what pleases
        local[np.arange(shape[0]), labels.numpy()] += np.float32(scale)
    kinds = random.integers(0, len(KINDS), random.integers(1, 3))
    sets = [local, *(KINDS[kind](random, local) for kind in kinds)]
    validation = torch.from_numpy(random.random(shape[0]) < 0.8)
    return Draw([torch.from_numpy(each) for each in sets], validation, labels[validation])


def draws(seed: int) -> Iterator[Draw]:
    """Receivers without end."""
    random = np.random.default_rng(seed)
    while True:
        yield draw_from(random)


def cnll(draw: Draw, random: Random) -> Weights:
    return Pace().weigh(_validated(draw)[:2], draw.labels)


def mixture(draw: Draw, random: Random) -> Weights:
    return Tempered(level=1.0).weigh(_validated(draw), draw.labels)


def guard(draw: Draw, random: Random) -> Weights:
    return PaceDuo(level=0.5).weigh(_validated(draw), draw.labels)


def nobody(draw: Draw, random: Random) -> Weights:
    """Weights that no gate would choose, some of them no weights at all."""
    odd = [0.0, 1.0, 0.5, -1.0, 2.0, 1e-45, 1e38, 1e300, np.inf, np.nan, random.random()]
    return tuple(float(weight) for weight in random.choice(odd, len(draw.sets)))


def _validated(draw: Draw) -> list[Tensor]:
    return [logits[draw.validation] for logits in draw.sets]


CHOOSERS: dict[str, Callable[[Draw, Random], Weights]] = {
    "cnll": cnll,
    "mixture": mixture,
    "guard": guard,
    "nobody": nobody,
}
SHARES = (0.2, 0.01, 0.002, 0.788)  # of the draws: Newton takes ten milliseconds, bisection one


def risk(logits: Tensor, draw: Draw) -> float:
    """The validation NLL written out in NumPy, beside the one that the promise uses."""
    chosen = logits[draw.validation].numpy().astype(np.float64)
    above = chosen - chosen[np.arange(len(chosen)), draw.labels.numpy(), None]  # the true class's
    top = above.max(1, keepdims=True)
    return float(np.mean(top[:, 0] + np.log(np.exp(above - top).sum(1))))


def harmful(logits: Tensor, draw: Draw) -> bool:
    """Whether a receiver would be worse off with these logits than with Local's."""
    if not torch.isfinite(logits).all():
        return True
    if not len(draw.labels):
        return logits is not draw.sets[0]
    local = risk(draw.sets[0], draw)
    return not risk(logits, draw) <= local + SLACK * (1 + local)


def broken(draw: Draw, chosen: Weights) -> bool:
    """Whether the promise does not hold: what is adopted is harmful, or a Local that is not Local's."""
    sets = draw.sets[: len(chosen)]
    weights = no_worse_than_local(sets, chosen, draw.validation, draw.labels)
    adopted = mix(sets, weights)
    if weights == local_alone(sets):
        return adopted is not draw.sets[0]
    return harmful(adopted, draw)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    began, random, source = time.perf_counter(), np.random.default_rng(1), draws(given.seed)
    counts = {name: {"draws": 0, "harmful without": 0, "broken": 0} for name in CHOOSERS}
    for _ in range(given.draws):
        draw, name = next(source), random.choice(list(CHOOSERS), p=SHARES)
        chosen, count = CHOOSERS[name](draw, random), counts[name]
        count["draws"] += 1
        count["harmful without"] += harmful(mix(draw.sets[: len(chosen)], chosen), draw)
        count["broken"] += broken(draw, chosen)
    print(json.dumps(counts | {"seconds": round(time.perf_counter() - began, 1)}))
    sys.exit(any(count["broken"] for count in counts.values()))


if __name__ == "__main__":
    main()
