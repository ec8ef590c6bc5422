"""One method on one seed, and the three readings of what its receivers have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from pace.protocol.steps import Adoption

READINGS: dict[str, Callable[[Adoption], Tensor]] = {
    "local": lambda adoption: adoption.local,
    "external": lambda adoption: adoption.external,
    "adopted": lambda adoption: adoption.logits,
}


@dataclass(frozen=True, eq=False)
class Trial:
    """One method on one seed: all that is kept of it. Every score is computed from these."""

    method: str
    seed: int
    alphas: list[float]
    """One a client."""
    confusions: dict[str, list[Tensor]] = field(repr=False)
    """Reading -> one a client, on its test nodes."""
    upload: list[int]
    """Bytes, one a client."""
    returned: list[int]
    """Bytes, one a client."""
    dense: int
    """Bytes of the shared model sent whole."""
    seconds: dict[str, float]
    """Of `fit`, `merge` and `adopt`."""
    roc_auc: dict[str, list[float | None]] = field(default_factory=dict, repr=False)
    """Of two classes: reading -> one a client, None where its test nodes are of one class."""
