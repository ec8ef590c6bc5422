"""The diagonal sketch of propagated messages (Section 4.1), and its two ablations."""

from collections.abc import Callable, Collection, Mapping

import torch
from torch import Tensor

from pace.errors import MomentError, SettingError
from pace.graph import Graph
from pace.models import Pass, Rows
from pace.params import Params

EPS = 1e-12  # ε of Section 4.1
TOLERANCE = 1e-3  # of a mean in float32

Moments = Mapping[str, Tensor]  # weight's name -> one weight for each input column
Geometry = Callable[[Pass, Graph], Moments]


def propagated(seen: Pass, graph: Graph) -> dict[str, Tensor]:
    """m = mean over training nodes of s ⊙ s, with s the rows that a weight multiplies (S = P H)."""
    return _moments(seen.inputs, graph)


def raw(seen: Pass, graph: Graph) -> dict[str, Tensor]:
    """The same of the rows before they travelled along edges (the paper's ablation)."""
    return _moments(seen.unpropagated, graph)


def _moments(rows: Mapping[str, Rows], graph: Graph) -> dict[str, Tensor]:
    return {name: normalised(second_moment(read[graph.train])) for name, read in rows.items()}


def uniform(seen: Pass, graph: Graph) -> dict[str, Tensor]:
    """No geometry, so nothing to send: RegMean is then the plain mean (the paper's ablation)."""
    return {}


def second_moment(rows: Tensor) -> Tensor:
    """The mean square of each column; zero where there are no rows.

    Where a node has several rows, as a GAT's has one a head, all of them count.
    """
    every = rows.flatten(0, -2)
    return every.square().sum(0) / max(1, len(every))


def normalised(moment: Tensor) -> Tensor:
    """m / max(mean(m), ε): a client's scale is not its weight."""
    return moment / torch.clamp(moment.mean(), min=EPS)


def check_complete(moments: Moments, start: Params, averaged: Collection[str]) -> None:
    """Refuse a model with a weight that would silently lose its geometry and take the plain mean."""
    if without := [name for name in start if name not in moments and name not in averaged]:
        raise SettingError(
            f"the weight {without[0]!r} has no rows: put them in `Pass.inputs`, or it in `averaged`"
        )


def check(name: str, moment: Tensor, clients: int = 1) -> None:
    """Refuse what `normalised` cannot give: such a moment would buy weight in the consensus.

    Of several clients the sum is looked at, whose mean is at most their number.

    A mean below one is honest where messages are hardly more than zero (ε is then the divisor), and
    where one of very many columns is so large that float16 cuts it off.
    """
    low, mean = float(moment.min()), float(moment.double().mean())
    if low < 0:
        raise MomentError(f"the moments {name!r} go down to {low:.3g}, expected none below 0")
    if mean > clients * (1 + TOLERANCE):
        raise MomentError(f"the moments {name!r} have mean {mean:.6g}, expected at most {clients}")
