"""The segment of logits between Local and one External, by the mixture that adoption uses."""

from torch import Tensor

from pace.gates import mix


def blend(local: Tensor, external: Tensor, alpha: float) -> Tensor:
    """z(α) = (1 - α) z_L + α z_E."""
    return mix((local, external), (1 - alpha, alpha))
