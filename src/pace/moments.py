"""The diagonal sketch of propagated messages (Section 4.1), and its two ablations."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from pace.errors import MomentError
from pace.gcn import Pass
from pace.graph import Graph

EPS = 1e-12  # ε of Section 4.1
TOLERANCE = 1e-3  # of a mean in float32

Moments = Mapping[str, Tensor]  # weight's name -> one weight for each input column
Geometry = Callable[[Pass, Graph], Moments]


def propagated(seen: Pass, graph: Graph) -> dict[str, Tensor]:
    """m_l = mean over training nodes of S_l ⊙ S_l, with S_l = P H_l: what the layer multiplies."""
    return {
        f"{layer}.weight": normalised(second_moment(message[graph.train]))
        for layer, message in enumerate(seen.messages)
    }


def raw(seen: Pass, graph: Graph) -> dict[str, Tensor]:
    """The same of the activations H_l before propagation (the paper's ablation)."""
    return {
        f"{layer}.weight": normalised(second_moment(activation[graph.train]))
        for layer, activation in enumerate((graph.x, *seen.activations))
    }


def uniform(seen: Pass, graph: Graph) -> dict[str, Tensor]:
    """No geometry, so nothing to send: RegMean is then the plain mean (the paper's ablation)."""
    return {}


def second_moment(rows: Tensor) -> Tensor:
    """The mean square of each column; zero where there are no rows."""
    return rows.square().sum(0) / max(1, len(rows))


def normalised(moment: Tensor) -> Tensor:
    """m / max(mean(m), ε): a client's scale is not its weight."""
    return moment / torch.clamp(moment.mean(), min=EPS)


def check(name: str, moment: Tensor) -> None:
    """Refuse what `normalised` cannot give: such a moment would buy weight in the consensus.

    A mean below one is honest where messages are hardly more than zero (ε is then the divisor), and
    where one of very many columns is so large that float16 cuts it off.
    """
    low, mean = float(moment.min()), float(moment.double().mean())
    if low < 0:
        raise MomentError(f"the moments {name!r} go down to {low:.3g}, expected none below 0")
    if mean > 1 + TOLERANCE:
        raise MomentError(f"the moments {name!r} have mean {mean:.6g}, expected at most 1")


GEOMETRIES: dict[str, Geometry] = {"propagated": propagated, "raw": raw, "uniform": uniform}
