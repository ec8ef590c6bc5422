"""Rows against other rows, setting by setting: points, intervals and harm, paired by draw and seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import pandas as pd

from pace_study.records import title
from pace_study.scores import SETTING, Array, t_interval
from pace_study.study import Row

MAJORITY = 0.6  # of the trials: three of five seeds, six of ten draws
MEANS = ["accuracy", "macro_f1", "roc_auc", "ece", "seconds"]
SIZES = ["upload", "returned"]


@dataclass(frozen=True)
class Harm:
    """Receivers that lose nodes on at least three of five trials."""

    harmed: int
    by_more: int  # of them, those that lose more than one node on average
    receivers: int

    @classmethod
    def of(cls, nodes: Array, same: bool = True) -> Harm:
        """From nodes gained (trials, receivers); `same` receivers in every trial, or new ones."""
        nodes = np.asarray(nodes, dtype=float)
        if not same:
            nodes = nodes.reshape(1, -1)
        lost = (nodes < 0).mean(0) >= MAJORITY
        return cls(int(lost.sum()), int((lost & (nodes.mean(0) < -1)).sum()), nodes.shape[1])

    @classmethod
    def total(cls, every: Iterable[Harm]) -> Harm:
        """Over several settings."""
        return cls(*map(sum, zip((0, 0, 0), *map(astuple, every), strict=True)))

    @property
    def percent(self) -> float:
        return 100 * self.harmed / max(1, self.receivers)

    def __str__(self) -> str:
        return f"{self.harmed} of {self.receivers} ({self.by_more})"


def by_setting(trials: pd.DataFrame, others: Mapping[str, Row]) -> pd.DataFrame:
    """A line for each setting and label of some trials, against each of the other rows there."""
    lines = []
    for (dataset, partition, clients), here in trials.groupby(SETTING, sort=False):
        rows = {
            label: own.set_index(["data_seed", "seed"]).sort_index()
            for label, own in here.groupby("label", sort=False)
        }
        for label, ours in rows.items():
            lines.append(
                {
                    **ours.iloc[0][[*SETTING, "method"]],
                    "setting": f"{title(dataset)}, {partition}, C = {clients}",
                    "label": label,
                    **ours[MEANS].mean(),
                    **{way: (ours[way] / ours.alphas.map(len)).mean() for way in SIZES},
                    "draws": len(ours),
                    "by_draw": ours.accuracy.to_dict(),
                }
            )
            for name, row in others.items():
                points = against(ours, rows.get(row.label), partition)
                lines[-1] |= {f"{key}_{name}": value for key, value in points.items()}
    return pd.DataFrame(lines)


def against(ours: pd.DataFrame, other: pd.DataFrame | None, partition: str) -> dict[str, Any]:
    """Points over another row's trials in one setting, over the draws and seeds that both have.

    Intervals are over draws, whose seeds share a split, or over the seeds of the only draw. `worst` is a
    receiver's mean or, where each draw has receivers of its own, the lowest.
    """
    both = ours.index.intersection([] if other is None else other.index)
    if other is None or both.empty:
        return {"over": np.nan, "interval": (np.nan, np.nan), "harm": np.nan, "worst": np.nan}
    mine, theirs = ours.loc[both], other.loc[both]
    points = mine.accuracy - theirs.accuracy
    draws = points.groupby(level="data_seed").mean()
    same = len(draws) == 1 or not partition.startswith("dirichlet")
    nodes = np.stack(mine.hits.to_list()) - np.stack(theirs.hits.to_list())
    shares = 100 * nodes / np.maximum(np.stack(mine.nodes.to_list()), 1)
    return {
        "over": float(points.mean()),
        "interval": t_interval(draws if len(draws) > 1 else points),
        "harm": Harm.of(nodes, same),
        "worst": float(shares.mean(0).min() if same else shares.min()),
    }
