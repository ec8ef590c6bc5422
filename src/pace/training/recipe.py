"""How a client trains, as settings."""

from __future__ import annotations

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

    `decay` is the coupled kind: decay · W joins the gradient, of biases too.
    """

    epochs: int = 100
    rate: float = 0.01
    decay: float = 5e-4
    optimiser: str = "adam"  # or "sgd"
    momentum: float = 0.0  # of sgd
    clip: float | None = None  # the largest norm of a step's whole gradient
    penalty: Penalty | None = None

    def __post_init__(self) -> None:
        if self.optimiser not in ("adam", "sgd"):
            raise SettingError(f"optimiser is {self.optimiser!r}, expected 'adam' or 'sgd'")
        if self.epochs < 0:
            raise SettingError(f"epochs is {self.epochs}, expected 0 or more")
