"""One exchange against a hundred rounds, and against one site that holds everything.

    python -m benchmarks.one_exchange --jobs 2

adds a line to results/rounds.jsonl for each dataset, partition, number of clients and method: FedAvg,
FedPub and FedGTA over a hundred rounds, their rate chosen on validation nodes, and, as `ceiling`, a GCN
and the ridge regressions on the undivided graph. Lines that are there are kept.

    python -m benchmarks.one_exchange --report

writes tables/rounds.md and figures/rounds.png beside it, from them and the study's stored cells.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import as_completed
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import torch

from benchmarks import rounds
from pace.datasets import DATA_SEED, divide, load
from pace.io import records
from pace.merging import RANK
from pace.methods import make
from pace.models import GCN
from pace.protocol import Federation
from pace.reports import Table
from pace.training import train_cohort
from pace_study.cell import HIDDEN, LAYERS, Store
from pace_study.figures import save_figure
from pace_study.records import title
from pace_study.run import workers
from pace_study.scores import SETTING, score_cells
from pace_study.study import AVAILABLE, SEEDS
from pace_study.tables import write_tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEYS = ("dataset", "partition", "clients", "method", "seed")
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
        found |= rounds.ceiling(rounds.whole(loaded, divided), model, [seed])
    else:
        graphs, plain = divided, Federation(model, make("local"), seed)
        local = train_cohort(graphs, model, {seed: plain.start}, recipe=plain.recipe)[seed]
        logits = rounds.logits(local, graphs, plain)
        schedules = [rounds.Schedule(count, each.epochs, each.rate) for each in rounds.SCHEDULES]
        compared = rounds.compared(graphs, model, make(method), logits, seed, schedules=schedules)
        found |= records.plain_record(compared)
        found["local"] = rounds.accuracy(logits, graphs, "test")
    return found


def played(path: Path) -> pd.DataFrame:
    """Everything that is stored, a row a line; the ceiling's lists of one number as numbers."""
    lines = path.read_text().splitlines() if path.is_file() else []
    table = pd.DataFrame(list(map(json.loads, lines)))
    for part in SITE if len(table) else ():
        table[part] = table[part].str[0]
    return table


def settings(results: Path) -> pd.DataFrame:
    """A row for each setting, averaged over the seeds that every method which was run there has.

    Columns: `seeds`, then (method, number) pairs; NaN where a method was not run.
    """
    many = played(results / "rounds.jsonl").set_index(list(KEYS))
    scores = score_cells(Store(results / "cells"))
    once = scores[
        scores.method.isin(ONCE)
        & (scores["rank"] == RANK)
        & (scores.data_seed == DATA_SEED)
        & (scores.reading == "adopted")
        & (scores.model == "gcn")
    ]
    once = once.assign(bytes=(once.upload + once.returned) / once.alphas.map(len))
    both = pd.concat([many, once.set_index(list(KEYS))[["accuracy", "bytes"]]]).sort_index()
    rows = {}
    for dataset, (partition, clients) in product(AVAILABLE, SETTINGS):
        where = dataset, partition, clients
        if where not in both.index.droplevel(["method", "seed"]):
            continue
        here = both.loc[where].sort_index()
        run = set(here.index.get_level_values("method"))
        if not {"fedavg", "ceiling", *ONCE} <= run:
            continue
        complete = [s for s in SEEDS if {m for m, seed in here.index if seed == s} == run]
        kept = here[here.index.get_level_values("seed").isin(complete)]
        means = kept.groupby("method").mean(numeric_only=True).stack()
        name = f"{title(dataset)}, {partition}, C = {clients}"
        setting = dict(zip(SETTING, where, strict=True)) | {"seeds": len(complete)}
        rows[name] = setting | means.to_dict()
    return pd.DataFrame.from_dict(rows, orient="index")


def tables(found: pd.DataFrame) -> list[Table]:
    """Every setting, then what one exchange is above a hundred rounds by."""
    columns = {("fedavg", "local"): "Local"}
    columns |= {(m, key): f"{ROUNDS[m]}: {word}" for m in ROUNDS for key, word in READINGS.items()}
    columns |= {(method, "accuracy"): label for method, label in ONCE.items()}
    columns |= {("ceiling", part): label for part, label in SITE.items()}
    found = found.reindex(columns=[*SETTING, "seeds", *columns])
    rows = [
        [name, str(row.seeds), *("-" if pd.isna(row[c]) else f"{row[c]:.1f}" for c in columns)]
        for name, row in found.iterrows()
    ]
    every = Table.of("", ["Setting", "Seeds", *columns.values()], rows, words=0)
    heads = ["One exchange − a hundred rounds, in the same gate"]
    heads += [f"{label}: {word}" for label in ROUNDS.values() for word in ("mean", "lowest")]
    margins = []
    for ours in OURS:
        line = [ours]
        for method in ROUNDS:
            ahead = (found[ours, "accuracy"] - found[method, "in_the_gate"]).dropna()
            line += [f"{ahead.mean():+.2f}", f"{ahead.min():+.2f} ({ahead.idxmin()})"]
        margins.append(line)
    return [every, Table.of("", heads, margins, words=0)]


def figure(found: pd.DataFrame) -> Figure:
    """Accuracy in the gate against the bytes that a client moved, at ten clients under Louvain."""
    from matplotlib import pyplot as plt

    shown = found[(found.partition == "louvain") & (found.clients == 10)]
    drawn, axes = plt.subplots(1, len(shown), figsize=(3 * len(shown), 3), squeeze=False)
    points = {(m, "in_the_gate"): f"{label}, 100 rounds" for m, label in ROUNDS.items()}
    points |= {(method, "accuracy"): label for method, label in ONCE.items()}
    for axis, (_, row) in zip(axes[0], shown.iterrows(), strict=True):
        for (column, label), mark in zip(points.items(), "v^<oDs*", strict=True):
            if column in row and not pd.isna(row[column]):
                axis.plot(row[column[0], "bytes"] / 1e6, row[column], mark, label=label)
        axis.axhline(row["fedavg", "local"], color="grey", linestyle=":", label="Local")
        most = row["ceiling", "both"]
        axis.axhline(most, color="black", linestyle="--", label="one site with everything")
        axis.set(title=title(row.dataset), xscale="log", xlabel="MB up + down, per client")
    axes[0][0].set_ylabel("accuracy in the gate (%)")
    axes[0][-1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=8)
    drawn.tight_layout()
    return drawn


def report(results: Path) -> None:
    found = settings(results)
    write_tables(results, "rounds", tables(found))
    save_figure(figure(found), results / "figures" / "rounds")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results"), help="the study's folder")
    parser.add_argument("--datasets", default=",".join(AVAILABLE))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report", action="store_true", help="only the table and the figure")
    given = parser.parse_args(arguments)
    if given.report:
        report(given.out)
        return
    path = given.out / "rounds.jsonl"
    stored = played(path)
    known = set(stored[list(KEYS)].itertuples(index=False, name=None)) if len(stored) else set()
    todo: list[Job] = [
        (dataset, *setting, method, seed)
        for seed, method, dataset, setting in product(
            SEEDS[: given.seeds], given.methods.split(","), given.datasets.split(","), SETTINGS
        )
        if (dataset, *setting, method, seed) not in known
    ]
    given.out.mkdir(parents=True, exist_ok=True)
    with workers(given.jobs) as pool, path.open("a") as file:
        for done in as_completed([pool.submit(run, job, given.rounds) for job in todo]):
            print(json.dumps(done.result()), file=file, flush=True)
            print(*(done.result()[key] for key in KEYS), flush=True)


if __name__ == "__main__":
    main()
