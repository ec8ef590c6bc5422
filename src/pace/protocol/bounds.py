"""How large the numbers of an upload may be, so that what is computed of them stays finite."""

from collections.abc import Mapping

from torch import Tensor

from pace.errors import NumberError

LARGEST = 1e9  # no training gets there


def bounded(message: Mapping[str, Tensor], largest: float = LARGEST) -> None:
    """Refuse numbers whose products the server could not compute with."""
    for name, value in message.items():
        if value.numel() and (highest := float(value.abs().max())) > largest:
            raise NumberError(
                f"tensor {name!r} goes up to {highest:.3g}, expected at most {largest:g}"
            )
