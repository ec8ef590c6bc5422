"""Parameters as data: a name for each tensor, combined by name and never changed in place."""

from collections.abc import Mapping

from torch import Tensor

Params = Mapping[str, Tensor]


def add(left: Params, right: Params) -> dict[str, Tensor]:
    return {name: value + right[name] for name, value in left.items()}


def subtract(left: Params, right: Params) -> dict[str, Tensor]:
    return {name: value - right[name] for name, value in left.items()}


def size(params: Params) -> int:
    """The bytes of the parameters sent dense, four each: the paper's measure of full cost."""
    return sum(4 * value.numel() for value in params.values())
