"""One exchange beside a hundred rounds: the table, what it says, and accuracy against bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from pace.datasets.partition.split import DATA_SEED
from pace.merging.carrier import RANK
from pace.reports.trial import Trial
from pace_study.cell import Cell, Store
from pace_study.records import score, title
from pace_study.study import AVAILABLE, SEEDS

SETTINGS = (("louvain", 10), ("louvain", 30), ("dirichlet", 10))
METHODS = ("ceiling", "fedavg", "fedgta", "fedpub")
ROUNDS = {"fedavg": "FedAvg", "fedgta": "FedGTA", "fedpub": "FedPub"}
ONCE = {
    "pace": "PACE",
    "pace-duo": "pace-duo",
    "pace-ridge": "pace-ridge",
    "pace-ridge-sums": "sums",
}
READINGS = {"received": "received", "fine_tuned": "tuned", "in_the_gate": "gate"}
SITE = {"gcn": "One site: GCN", "ridge": "ridge", "both": "both"}
OURS = ("pace-ridge", "pace-ridge-sums")

Played = Mapping[str, Any]  # one line of `one_exchange`


@dataclass(frozen=True)
class Setting:
    """One dataset under one partition, on the seeds that every method which was run there has."""

    dataset: str
    partition: str
    clients: int
    rounds: Mapping[
        str, Sequence[Played]
    ]  # by method, seed by seed; with `ceiling`; empty: not run
    once: Mapping[str, Sequence[Trial]]

    @property
    def name(self) -> str:
        return f"{title(self.dataset)}, {self.partition}, C = {self.clients}"

    @property
    def seeds(self) -> int:
        return len(self.rounds["fedavg"])

    def played(self, method: str, key: str) -> float:
        return fmean(each[key] for each in self.rounds[method])

    def site(self, part: str) -> float:
        return fmean(each[part][0] for each in self.rounds["ceiling"])

    def adopted(self, method: str) -> float:
        return fmean(score(trial, "adopted", "accuracy") for trial in self.once[method])

    def moved(self, method: str) -> float:
        """Bytes up and down, of one client."""
        return fmean(fmean(trial.upload) + fmean(trial.returned) for trial in self.once[method])


def played(path: Path) -> list[Played]:
    """Everything that is stored."""
    return [*map(json.loads, path.read_text().splitlines())] if path.is_file() else []


def settings(out: Path, results: Path) -> Iterator[Setting]:
    """All settings of which FedAvg and the ceiling are there."""
    found = {
        (each["dataset"], each["partition"], each["clients"], each["method"], each["seed"]): each
        for each in played(out)
    }
    store = Store(results / "cells")
    for dataset in AVAILABLE:
        for partition, clients in SETTINGS:
            rounds: dict[str, list[Played]] = {method: [] for method in METHODS}
            once: dict[str, list[Trial]] = {method: [] for method in ONCE}
            where = dataset, partition, clients
            run = [m for m in METHODS if any((*where, m, seed) in found for seed in SEEDS)]
            for seed in SEEDS:
                lines = [found.get((*where, method, seed)) for method in run]
                cells = (Cell(*where, method, RANK, seed, DATA_SEED) for method in ONCE)
                trials = [store.read(cell) for cell in cells]
                if None in lines or None in trials:
                    continue
                for method, each in zip(run, lines, strict=True):
                    rounds[method].append(each or {})
                for method, trial in zip(ONCE, trials, strict=True):
                    once[method] += [trial] if trial else []
            if rounds["fedavg"] and rounds["ceiling"]:
                yield Setting(dataset, partition, clients, rounds, once)


def markdown(found: Sequence[Setting]) -> str:
    """Every setting, then what one exchange is above a hundred rounds by."""
    heads = ["Setting", "Seeds", "Local"]
    heads += [f"{label}: {word}" for label in ROUNDS.values() for word in READINGS.values()]
    heads += [*ONCE.values(), *SITE.values()]
    rows = [
        [
            each.name,
            str(each.seeds),
            f"{each.played('fedavg', 'local'):.1f}",
            *(
                f"{each.played(method, key):.1f}" if each.rounds[method] else "-"
                for method in ROUNDS
                for key in READINGS
            ),
            *(f"{each.adopted(method):.1f}" for method in ONCE),
            *(f"{each.site(part):.1f}" for part in SITE),
        ]
        for each in found
    ]
    against = ["One exchange − a hundred rounds, in the same gate"]
    against += [f"{label}: {word}" for label in ROUNDS.values() for word in ("mean", "lowest")]
    margins = [
        [ours, *(text for method in ROUNDS for text in margin(found, ours, method))]
        for ours in OURS
    ]
    return _table(heads, rows) + "\n\n" + _table(against, margins) + "\n"


def margin(found: Sequence[Setting], ours: str, method: str) -> tuple[str, str]:
    """How far one exchange is above, where both were run: on average, and where it is least."""
    ahead = {
        each.name: each.adopted(ours) - each.played(method, "in_the_gate")
        for each in found
        if each.rounds[method]
    }
    least = min(ahead, key=lambda name: ahead[name])
    return f"{fmean(ahead.values()):+.2f}", f"{ahead[least]:+.2f} ({least})"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def figure(found: Sequence[Setting]) -> Any:
    """Accuracy in the gate against the bytes that a client moved, at ten clients under Louvain."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown = [each for each in found if (each.partition, each.clients) == SETTINGS[0]]
    drawn, axes = plt.subplots(1, len(shown), figsize=(3 * len(shown), 3), squeeze=False)
    for axis, each in zip(axes[0], shown, strict=True):
        for (method, label), mark in zip(ROUNDS.items(), "v^<", strict=True):
            if not each.rounds[method]:
                continue
            moved = each.played(method, "bytes") / 1e6
            reached = each.played(method, "in_the_gate")
            axis.plot(moved, reached, mark, label=f"{label}, 100 rounds")
        for (method, label), mark in zip(ONCE.items(), "oDs*", strict=True):
            axis.plot(each.moved(method) / 1e6, each.adopted(method), mark, label=label)
        local = each.played("fedavg", "local")
        axis.axhline(local, color="grey", linestyle=":", label="Local")
        most = each.site("both")
        axis.axhline(most, color="black", linestyle="--", label="one site with everything")
        axis.set(title=title(each.dataset), xscale="log", xlabel="MB up + down, per client")
    axes[0][0].set_ylabel("accuracy in the gate (%)")
    axes[0][-1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=8)
    drawn.tight_layout()
    return drawn
