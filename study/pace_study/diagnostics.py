"""Who gains and who loses: PACE against Local by seed and by receiver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from pace_study.records import title
from pace_study.scores import Array, of_part, t_interval, win_tie_loss
from pace_study.study import PACE, Part


@dataclass(frozen=True)
class Gains:
    """PACE less Local on one dataset, in points."""

    dataset: str
    differences: dict[str, Array]
    """By metric, one a seed."""
    receivers: Array
    """Accuracy, (receiver, seed)."""
    alphas: Array
    """(receiver, seed)."""

    def interval(self, metric: str) -> tuple[float, float]:
        """The 95 % interval of a paired t test over seeds."""
        return t_interval(self.differences[metric])

    def counts(self, metric: str) -> tuple[int, int, int]:
        """Seeds won, tied and lost."""
        return win_tie_loss(self.differences[metric])

    @property
    def receiver_counts(self) -> tuple[int, int, int]:
        """Helped, tied and harmed receiver-seed units."""
        return win_tie_loss(self.receivers.ravel())

    @property
    def worst(self) -> float:
        """The worst receiver's mean over seeds."""
        return float(self.receivers.mean(1).min())


def gains(part: Part, scores: pd.DataFrame, seeds: Sequence[int]) -> list[Gains]:
    """Each dataset of a part."""
    found = of_part(scores, part, seeds, [PACE])
    before = of_part(scores, part, seeds, [replace(PACE, reading="local")])
    made = []
    for dataset in part.datasets:
        ours, own = (table[table.dataset == dataset] for table in (found, before))
        if ours.empty:
            continue
        made.append(
            Gains(
                title(dataset),
                {
                    metric: ours[metric].to_numpy() - own[metric].to_numpy()
                    for metric in part.metrics
                },
                np.stack(ours.gains.to_list(), axis=1),
                np.stack(ours.alphas.to_list(), axis=1),
            )
        )
    return made
