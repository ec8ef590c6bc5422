"""One exchange against a hundred rounds, and against one site that holds everything.

    python -m benchmarks.one_exchange --out results/rounds --jobs 2

writes a JSON file for each dataset, partition, number of clients and method: FedAvg, FedPub and FedGTA
over a hundred rounds, their rate chosen on validation nodes, and, as `ceiling`, a GCN and the ridge
regressions on the undivided graph. Files that exist are kept.

    python -m benchmarks.one_exchange --out results/rounds --report results

writes `tables/rounds.md` and `figures/rounds.png` from them and from the study's stored cells.
"""

from __future__ import annotations

import argparse
import io
import json
from concurrent.futures import as_completed
from itertools import product
from pathlib import Path

import torch

from benchmarks.one_exchange_page import METHODS, SETTINGS, figure, markdown, settings
from pace.datasets import load
from pace.datasets.partition.divide import division
from pace.io import atomic, records
from pace.methods import make
from pace.models.gcn import GCN
from pace.protocol.federation import Federation
from pace.reports.stored import HIDDEN, LAYERS
from pace.training.train import train_cohort
from pace_study import ceiling, rounds
from pace_study.run import workers
from pace_study.study import AVAILABLE, SEEDS

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
        compared = rounds.compared(graphs, model, make(method), logits, seed, schedules)
        found |= records.plain_record(compared)
        found["local"] = rounds.accuracy(logits, graphs, "test")
    atomic.write(out / name_of(job), (json.dumps(found, indent=1) + "\n").encode())
    return name_of(job)


def report(out: Path, results: Path) -> None:
    found = list(settings(out, results))
    atomic.write(results / "tables" / "rounds.md", markdown(found).encode())
    drawn = figure(found)
    for kind in ("png", "pdf"):
        buffer = io.BytesIO()
        drawn.savefig(
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
