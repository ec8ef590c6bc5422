"""One exchange against a hundred rounds, and against one site that holds everything.

    python benchmarks/one_exchange.py --out results/rounds --jobs 2

writes a JSON file for each dataset, partition, number of clients and method: FedAvg, FedPub and FedGTA
over a hundred rounds, their rate chosen on validation nodes, and, as `ceiling`, a GCN and the ridge
regressions on the undivided graph. Files that exist are kept.

    python benchmarks/one_exchange.py --out results/rounds --report results

writes `tables/rounds.md` and `figures/rounds.png` from them and from the study's stored cells.
"""

from __future__ import annotations

import argparse
import io
import json
from concurrent.futures import as_completed
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from pace.data import load
from pace.io import atomic
from pace.methods import make
from pace.models.gcn import GCN
from pace.partition.divide import division
from pace.partition.split import DATA_SEED
from pace.protocol.federation import Federation
from pace.reports.stored import HIDDEN, LAYERS
from pace.runtimes.simulation import Trial
from pace.study import ceiling, rounds
from pace.study.cell import Cell, Store
from pace.study.records import score, title
from pace.study.run import workers
from pace.study.study import AVAILABLE, SEEDS
from pace.training.train import train_cohort

SETTINGS = (("louvain", 10), ("louvain", 30), ("dirichlet", 10))
METHODS = ("ceiling", "fedavg", "fedgta", "fedpub")
ROUNDS = {"fedavg": "FedAvg", "fedgta": "FedGTA", "fedpub": "FedPub"}
ONCE = {
    "pace": "PACE",
    "pace-duo": "pace-duo",
    "pace-ridge": "pace-ridge",
    "pace-ridge-sums": "sums",
}
READINGS = {"received": "received", "fine_tuned": "tuned", "in_the_gate": "in the gate"}
KEYS = ("dataset", "partition", "clients", "method", "seed")
Job = tuple[str, str, int, str, int]  # dataset, partition, clients, method, seed


def name_of(job: Job) -> str:
    dataset, partition, clients, method, seed = job
    return f"{dataset}-{partition}-c{clients}-{method}-{seed}.json"


def run(job: Job, out: Path, count: int) -> str:
    """One file."""
    torch.set_num_threads(1)
    dataset, partition, clients, method, seed = job
    loaded = load(dataset)
    divided = division(loaded, partition, clients)
    model = GCN((loaded.graph.features, *[HIDDEN] * (LAYERS - 1), loaded.classes))
    found: dict[str, object] = dict(zip(KEYS, job, strict=True))
    if method == "ceiling":
        found |= ceiling.ceiling(ceiling.whole(loaded, divided), model, [seed])
    else:
        graphs, plain = divided.graphs, Federation(model, make("local"), seed)
        local = train_cohort(graphs, model, {seed: plain.start}, recipe=plain.recipe)[seed]
        logits = rounds.logits(local, graphs, plain)
        schedules = [rounds.Schedule(count, each.epochs, each.rate) for each in rounds.SCHEDULES]
        found |= rounds.compared(graphs, model, make(method), logits, seed, schedules)
        found["local"] = rounds.accuracy(logits, graphs, "test")
    atomic.write(out / name_of(job), (json.dumps(found, indent=1) + "\n").encode())
    return name_of(job)


def shown(out: Path, results: Path) -> tuple[str, Any]:
    """The table, and the figure of accuracy against bytes at ten clients under Louvain."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    stored = [json.loads(path.read_text()) for path in sorted(out.glob("*.json"))]
    found = {
        (each["dataset"], each["partition"], each["clients"], each["method"]): each
        for each in stored
    }
    heads = ["Setting", "Local"]
    heads += [
        f"{label}: {reading}"
        for label in ROUNDS.values()
        for reading in ("received", "tuned", "gate")
    ]
    heads += [*ONCE.values(), "One site: GCN", "ridge", "both"]
    lines = [heads, ["---"] * len(heads)]
    figure, axes = plt.subplots(1, len(AVAILABLE), figsize=(3 * len(AVAILABLE), 3), squeeze=False)
    store = Store(results / "cells")
    for dataset, (partition, clients) in product(AVAILABLE, SETTINGS):
        here = {method: found.get((dataset, partition, clients, method)) for method in METHODS}
        if not (here["fedavg"] and here["ceiling"]):
            continue
        trials = {
            method: store.read(Cell(dataset, partition, clients, method, 6, SEEDS[0], DATA_SEED))
            for method in ONCE
        }
        lines.append(
            [
                f"{title(dataset)}, {partition}, C = {clients}",
                f"{here['fedavg']['local']:.1f}",
                *(
                    f"{here[m][r]:.1f}" if here[m] else "-"
                    for m in ROUNDS
                    for r in ("received", "fine_tuned", "in_the_gate")
                ),
                *(
                    "-" if t is None else f"{score(t, 'adopted', 'accuracy'):.1f}"
                    for t in trials.values()
                ),
                *(f"{here['ceiling'][part][0]:.1f}" for part in ("gcn", "ridge", "both")),
            ]
        )
        if (partition, clients) != SETTINGS[0]:
            continue
        axis = axes[0][AVAILABLE.index(dataset)]
        for (method, label), mark in zip(ROUNDS.items(), "v^<", strict=True):
            if (each := here[method]) is None:
                continue
            axis.plot(each["bytes"] / 1e6, each["in_the_gate"], mark, label=f"{label}, 100 rounds")
        for (method, label), mark in zip(ONCE.items(), "oDs*", strict=True):
            if (trial := trials[method]) is not None:
                moved = fmean(trial.upload) + fmean(trial.returned)
                axis.plot(moved / 1e6, adopted(trial), mark, label=label)
        axis.axhline(here["fedavg"]["local"], color="grey", linestyle=":", label="Local")
        most = here["ceiling"]["both"][0]
        axis.axhline(most, color="black", linestyle="--", label="one site with everything")
        axis.set(title=title(dataset), xscale="log", xlabel="MB up + down, per client")
    axes[0][0].set_ylabel("accuracy in the gate (%)")
    axes[0][-1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=8)
    figure.tight_layout()
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n", figure


def adopted(trial: Trial) -> float:
    return score(trial, "adopted", "accuracy")


def report(out: Path, results: Path) -> None:
    table, figure = shown(out, results)
    atomic.write(results / "tables" / "rounds.md", table.encode())
    for kind in ("png", "pdf"):
        buffer = io.BytesIO()
        figure.savefig(
            buffer, format=kind, metadata={"CreationDate": None} if kind == "pdf" else None
        )
        atomic.write(results / "figures" / f"rounds.{kind}", buffer.getvalue())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/rounds"))
    parser.add_argument("--datasets", default=",".join(AVAILABLE))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report", type=Path, help="the study's folder; nothing is computed")
    given = parser.parse_args()
    if given.report:
        report(given.out, given.report)
        return
    jobs: list[Job] = [
        (dataset, *setting, method, seed)
        for seed, method, dataset, setting in product(
            SEEDS[: given.seeds], given.methods.split(","), given.datasets.split(","), SETTINGS
        )
    ]
    todo = [job for job in jobs if not (given.out / name_of(job)).exists()]
    with workers(given.jobs) as pool:
        for done in as_completed([pool.submit(run, job, given.out, given.rounds) for job in todo]):
            print(done.result(), flush=True)


if __name__ == "__main__":
    main()
