"""A fixed alpha: a gate that looks at no label, for the paper's ablations. It promises nothing."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Fixed:
    """The same alpha for every receiver."""

    alpha: float

    def __call__(self, local: Tensor, external: Tensor, labels: Tensor) -> float:
        return self.alpha
