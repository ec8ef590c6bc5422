"""The segment of logits between Local and one External, by the mixture that adoption uses."""

import numpy as np
from torch import Tensor

from pace.gates import mix
from pace.gates.cnll import Slopes


def blend(local: Tensor, external: Tensor, alpha: float) -> Tensor:
    """z(α) = (1 - α) z_L + α z_E."""
    return mix((local, external), (1 - alpha, alpha))


def slope(local: Tensor, external: Tensor, labels: Tensor, alpha: float) -> float:
    """R'(α): the displacement the blend expects less the displacement of the true labels."""
    return float(Slopes([(local, external, labels)])(np.array([alpha]))[0])
