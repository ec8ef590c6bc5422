"""One method on one seed, as data and as JSON, and the three readings of what its receivers have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pace.protocol.steps import Adoption
from pace.task import mean_auc

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
    counts: dict[str, list[Tensor]] = field(repr=False)
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

    def plain(self) -> dict[str, object]:
        """As JSON has it; a confusion matrix is text, `12 0 3;0 5 1;2 0 9`, a row a true class."""
        confusions = {
            reading: [
                ";".join(" ".join(map(str, row)) for row in counts.tolist()) for counts in all_
            ]
            for reading, all_ in self.counts.items()
        }
        left_out = {"counts"} if self.roc_auc else {"counts", "roc_auc"}
        rest = {key: value for key, value in vars(self).items() if key not in left_out}
        return {**rest, "confusions": confusions}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Trial:
        """The inverse of `plain`."""
        counts = {
            reading: [
                torch.tensor([[int(count) for count in row.split()] for row in text.split(";")])
                for text in matrices
            ]
            for reading, matrices in content["confusions"].items()
        }
        rest = {key: value for key, value in content.items() if key != "confusions"}
        return cls(**rest, counts=counts)


def readings(method: str) -> list[str]:
    """Local has one reading; every other method has its own local, its external and the adopted."""
    return ["local"] if method == "local" else list(READINGS)


def used_alphas(trial: Trial, reading: str) -> list[float]:
    """The α of a reading, by client: 0 is Local, 1 what came back, else what the receiver chose."""
    fixed = {"local": 0.0, "external": 1.0}
    return [fixed[reading]] * len(trial.alphas) if reading in fixed else trial.alphas


def auc(trial: Trial, reading: str) -> float | None:
    """The ROC AUC of a reading; None where there are more than two classes."""
    if not trial.roc_auc:
        return None
    nodes = [int(counts.sum()) for counts in trial.counts[reading]]
    return mean_auc(trial.roc_auc[reading], nodes)
