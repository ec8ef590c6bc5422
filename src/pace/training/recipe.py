"""How a client trains, as settings."""

import math
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from pace.errors import SettingError
from pace.params import Params


class Penalty(Protocol):
    """A term added to the training loss. `outputs` are each layer's, at the training nodes."""

    def __call__(
        self, params: Params, start: Params, outputs: tuple[Tensor, ...], labels: Tensor
    ) -> Tensor: ...


@dataclass(frozen=True)
class Recipe:
    """How a client trains: full-batch steps from W_0, the last checkpoint kept.

    Example:
        >>> from pace import Recipe
        >>> Recipe(epochs=50, optimiser="sgd", momentum=0.9).rate
        0.01
    """

    epochs: int = 100
    """Number of steps."""
    rate: float = 0.01
    """The learning rate."""
    decay: float = 5e-4
    """Weight decay of the coupled kind: decay · W joins the gradient, of biases too."""
    optimiser: str = "adam"
    """`"adam"` or `"sgd"`."""
    momentum: float = 0.0
    """Of SGD."""
    clip: float | None = None
    """The largest norm of a step's whole gradient; None does not clip."""
    penalty: Penalty | None = None
    """A term beside the cross-entropy, such as FedProx's."""

    def __post_init__(self) -> None:
        if self.optimiser not in ("adam", "sgd"):
            raise SettingError(f"optimiser is {self.optimiser!r}, expected 'adam' or 'sgd'")
        if self.epochs < 0:
            raise SettingError(f"epochs is {self.epochs}, expected 0 or more")
        if not 0 < self.rate < math.inf:
            raise SettingError(f"the learning rate is {self.rate}, expected a number above 0")
        if not 0 <= self.decay < math.inf:
            raise SettingError(f"the weight decay is {self.decay}, expected a number of 0 or more")
