"""Parameters as data: a name for each tensor, combined by name and never changed in place."""

import math
from collections.abc import Mapping

from torch import Tensor

Params = Mapping[str, Tensor]


def add(left: Params, right: Params) -> dict[str, Tensor]:
    return {name: value + right[name] for name, value in left.items()}


def subtract(left: Params, right: Params) -> dict[str, Tensor]:
    return {name: value - right[name] for name, value in left.items()}


def norm(params: Params) -> float:
    """The Frobenius norm of all parameters together."""
    return math.sqrt(sum(float(value.double().square().sum()) for value in params.values()))


def size(params: Params) -> int:
    """The bytes of the parameters sent dense, four each: the paper's measure of full cost."""
    return sum(4 * value.numel() for value in params.values())
