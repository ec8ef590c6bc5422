"""One exchange against a hundred rounds, and against one site that holds everything.

    python -m benchmarks.one_exchange --out results/rounds.jsonl --jobs 2

writes a line of JSON for each dataset, partition, number of clients and method: FedAvg, FedPub and
FedGTA over a hundred rounds, their rate chosen on validation nodes, and, as `ceiling`, a GCN and the
ridge regressions on the undivided graph. Lines that are there are kept.

    python -m benchmarks.one_exchange --out results/rounds.jsonl --report results

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

from benchmarks.one_exchange_page import METHODS, SETTINGS, figure, markdown, played, settings
from pace.datasets import load
from pace.datasets.partition.divide import divide
from pace.io import atomic, records
from pace.methods import make
from pace.models.gcn import GCN
from pace.protocol.federation import Federation
from pace.training.train import train_cohort
from pace_study import ceiling, rounds
from pace_study.cell import HIDDEN, LAYERS
from pace_study.run import workers
from pace_study.study import AVAILABLE, SEEDS

KEYS = ("dataset", "partition", "clients", "method", "seed")
Job = tuple[str, str, int, str, int]  # dataset, partition, clients, method, seed


def run(job: Job, count: int) -> dict[str, object]:
    """One line of the file."""
    torch.set_num_threads(1)
    dataset, partition, clients, method, seed = job
    loaded = load(dataset)
    divided = divide(loaded, partition, clients)
    model = GCN((loaded.graph.features, *[HIDDEN] * (LAYERS - 1), loaded.classes))
    found: dict[str, object] = dict(zip(KEYS, job, strict=True))
    if method == "ceiling":
        found |= ceiling.ceiling(ceiling.whole(loaded, divided), model, [seed])
    else:
        graphs, plain = divided, Federation(model, make("local"), seed)
        local = train_cohort(graphs, model, {seed: plain.start}, recipe=plain.recipe)[seed]
        logits = rounds.logits(local, graphs, plain)
        schedules = [rounds.Schedule(count, each.epochs, each.rate) for each in rounds.SCHEDULES]
        compared = rounds.compared(graphs, model, make(method), logits, seed, schedules)
        found |= records.plain_record(compared)
        found["local"] = rounds.accuracy(logits, graphs, "test")
    return found


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
    parser.add_argument("--out", type=Path, default=Path("results/rounds.jsonl"))
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
    known = {tuple(each[key] for key in KEYS) for each in played(given.out)}
    todo = [job for job in jobs if job not in known]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with workers(given.jobs) as pool, given.out.open("a") as file:
        for done in as_completed([pool.submit(run, job, given.rounds) for job in todo]):
            print(json.dumps(done.result()), file=file, flush=True)
            print(*(done.result()[key] for key in KEYS), flush=True)


if __name__ == "__main__":
    main()
