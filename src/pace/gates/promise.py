"""The gate's promise, on the very numbers that are used: no receiver ends worse than with Local.

A gate reasons about NLL in float64; what a receiver uses are float32 logits. Where logits are huge
and nearly equal over the classes, a slope or a root is rounding noise, and a gate may choose weights
that harm. So whatever weights it chose, the logits that they give are compared with Local's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pace.gates.mixture import Weights, local_alone, mix
from pace.task import nll


def no_worse_than_local(
    sets: Sequence[Tensor], weights: Weights, validation: Tensor, labels: Tensor
) -> Weights:
    """The weights if the logits they give are finite and no worse than Local's, else Local alone.

    Worse is by the NLL over the validation nodes, computed in float64 from these very logits.

    Args:
        sets: logits of all nodes, Local's first, each (nodes, classes).
        weights: what a gate chose, one for each set.
        validation: which nodes are validation nodes, (nodes,).
        labels: the labels of the validation nodes.
    """
    if weights == local_alone(sets):
        return weights
    adopted = mix(sets, weights)
    sound = min(weights) >= 0 and sum(weights) > 0 and bool(torch.isfinite(adopted).all())
    if sound and nll(adopted[validation], labels) <= nll(sets[0][validation], labels):
        return weights
    return local_alone(sets)
