"""What a run found, as plain data: every number is computed from the stored trials."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from pace.metrics import SCORES, mean_auc, pooled
from pace.runtimes.simulation import READINGS, Trial


def summarise(trials: Sequence[Trial]) -> dict[str, Any]:
    """Scores by method and reading, alphas and bytes by method.

    `alpha` and `bytes` at the top are PACE's, or those of the last method where PACE did not run.
    """
    methods = list(dict.fromkeys(trial.method for trial in trials))
    by_method = {name: [trial for trial in trials if trial.method == name] for name in methods}
    leading = "pace" if "pace" in by_method else methods[-1]
    return {
        "results": [
            {"method": name, "reading": reading} | scores(by_method[name], reading)
            for name in methods
            for reading in readings(name)
        ],
        "alpha": alphas(by_method[leading]),
        "bytes": traffic(by_method[leading]),
        "methods": {
            name: {
                "alpha": alphas(group),
                "bytes": traffic(group),
                "seconds": {
                    step: statistics.fmean(trial.seconds[step] for trial in group)
                    for step in group[0].seconds
                },
            }
            for name, group in by_method.items()
        },
    }


def readings(method: str) -> list[str]:
    """Local has one reading; every other method has its own local, its external and the adopted."""
    return ["local"] if method == "local" else list(READINGS)


def scores(trials: Sequence[Trial], reading: str) -> dict[str, Any]:
    """Each score of a reading: mean and sample standard deviation over seeds, and seed by seed."""
    tables = [pooled(trial.confusions[reading]) for trial in trials]
    found = {name: spread([score(table) for table in tables]) for name, score in SCORES.items()}
    areas = [auc(trial, reading) for trial in trials]
    if known := [area for area in areas if area is not None]:
        found["roc_auc"] = spread(known)
    return found


def auc(trial: Trial, reading: str) -> float | None:
    """The ROC AUC of a reading; None where there are more than two classes."""
    if not trial.roc_auc:
        return None
    nodes = [int(counts.sum()) for counts in trial.confusions[reading]]
    return mean_auc(trial.roc_auc[reading], nodes)


def spread(values: Sequence[float]) -> dict[str, Any]:
    """A single value has no standard deviation."""
    std = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "std": std, "per_seed": list(values)}


def alphas(trials: Sequence[Trial]) -> dict[str, Any]:
    """How much of External the receivers admitted, and the share of them that kept Local."""
    every = [alpha for trial in trials for alpha in trial.alphas]
    return {
        "mean": statistics.fmean(every),
        "zero_share": sum(alpha == 0 for alpha in every) / len(every),
        "per_seed": [trial.alphas for trial in trials],
    }


def traffic(trials: Sequence[Trial]) -> dict[str, Any]:
    """Bytes of one client's messages, framing included, against a dense model."""
    dense = trials[0].dense
    upload = statistics.fmean(size for trial in trials for size in trial.upload)
    returned = statistics.fmean(size for trial in trials for size in trial.returned)
    return {
        "dense": dense,
        "upload": upload,
        "return": returned,
        "upload_ratio": upload / dense,
        "return_ratio": returned / dense,
    }
