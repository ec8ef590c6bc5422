"""A trial as it is stored in a run's results.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pace.io.versions import installed
from pace.reports.trial import Trial

LARGEST = 2**28  # bytes of a file of results
TODAY = {"native": "external"}  # a reading's name in older files, and what it is called now
LIBRARIES = ("pace-fgl", "torch", "numpy", "scikit-network", "pymetis", "torch-geometric")


def versions() -> dict[str, str]:
    """What the result was made with."""
    return installed(LIBRARIES)


def plain(trial: Trial) -> dict[str, object]:
    """All that a trial found, as JSON has it."""
    return {
        "alphas": trial.alphas,
        "confusions": {
            reading: [_rows(counts) for counts in clients]
            for reading, clients in trial.confusions.items()
        },
        "upload": trial.upload,
        "returned": trial.returned,
        "dense": trial.dense,
        "seconds": {step: round(value, 3) for step, value in trial.seconds.items()},
        **({"roc_auc": trial.roc_auc} if trial.roc_auc else {}),
    }


def restored(method: str, seed: int, found: Mapping[str, Any]) -> Trial:
    """The trial again, of older files too."""
    return Trial(
        method,
        seed,
        found["alphas"],
        {
            TODAY.get(reading, reading): [_counts(rows) for rows in clients]
            for reading, clients in found["confusions"].items()
        },
        found["upload"],
        found["returned"],
        found["dense"],
        found["seconds"],
        found.get("roc_auc", {}),
    )


def _rows(counts: Tensor) -> str:
    """A confusion matrix as text: `12 0 3;0 5 1;2 0 9`, a row a class."""
    return ";".join(" ".join(map(str, row)) for row in counts.tolist())


def _counts(text: str) -> Tensor:
    return torch.tensor([[int(count) for count in row.split()] for row in text.split(";")])
