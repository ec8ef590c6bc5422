"""What narrower numbers on the wire cost in accuracy and save in bytes."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from benchmarks.clock import Point
from pace.graph import Graph
from pace.methods import Pace
from pace.models import Model
from pace.protocol.federation import SEEDS
from pace.protocol.number_formats import KINDS
from pace.runtimes.simulation import run_trials
from pace.task import accuracy, pooled


def kinds(name: str, graphs: Sequence[Graph], gcn: Model) -> Iterator[Point]:
    """PACE with each kind of numbers: adopted accuracy over seeds, messages against a dense model."""
    for kind in KINDS:
        trials = list(run_trials(graphs, gcn, {"pace": Pace()}, SEEDS, numbers=kind))
        scores = [100 * accuracy(pooled(trial.counts["adopted"])) for trial in trials]
        yield {
            "dataset": name,
            "numbers": kind,
            "accuracy": statistics.fmean(scores),
            "std": statistics.stdev(scores),
            "upload_percent": 100 * trials[0].upload[0] / trials[0].dense,
            "return_percent": 100 * trials[0].returned[0] / trials[0].dense,
        }
