"""The numbers of the paper's tables: ours, the published ones, and what redrawn masks explain."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd

from pace.protocol import SEEDS
from pace_study.scores import SCORES, Draws, of_part, of_rows, student_t
from pace_study.study import (
    CITATION,
    DRAWS,
    OWN,
    PARTS,
    REDRAW_SEEDS,
    SHARES,
    Part,
    in_order,
)

TITLES = {
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "cs": "CS",
    "computers": "Computers",
    "ogbn-arxiv": "ogbn-arxiv",
}
CITATION_MEAN = "Cora+CiteSeer+PubMed mean"  # the rank table's bytes are averaged over these
PRINTED = 0.005  # points: what rounding to two digits hides
NUMBER = ["table", "dataset", "method", "metric", "clients"]  # what tells a number of the paper
SAME = {  # labels of one row in several tables -> its label among the redraws
    "Full PACE": "PACE",
    "Transport + CNLL": "PACE",
    "PACE rank 6": "PACE",
    "Transport": "Transport (alpha=1)",
    "Local+CNLL": "Local",
}
Key = tuple[str, str, str, str, int]  # dataset's title, row's label, metric, partition, clients
Redrawn = Mapping[Key, Draws]


def title(dataset: str) -> str:
    """The paper's name of a dataset; a file of one's own goes by its stem."""
    return TITLES.get(dataset, Path(dataset).stem if dataset.endswith(".graph") else dataset)


@cache
def published() -> pd.DataFrame:
    """The paper's numbers: percent, with the standard deviation over seeds where it prints one."""
    text = resources.files("pace_study").joinpath("paper.json").read_text(encoding="utf-8")
    return pd.DataFrame(json.loads(text)["records"])


def measured(part: Part, scores: pd.DataFrame, seeds: Sequence[int]) -> pd.DataFrame:
    """The numbers of a part's table: `NUMBER`, partition, mean and sample standard deviation."""
    found = of_part(scores, part, seeds)
    groups = found.groupby(["dataset", "clients", "label"], sort=False)[list(part.metrics)]
    tables = [groups.agg(["mean", "std"]).stack(0, future_stack=True)]
    if part.name == "rank" and set(part.datasets) == set(CITATION) == set(found.dataset):
        first = found[found.seed == part.seeds(seeds)[0]].assign(dataset=CITATION_MEAN)
        groups = first.groupby(["dataset", "clients", "label"], sort=False)[list(SHARES[2:])]
        whole = groups.size() == len(CITATION)
        tables.append(groups.agg(["mean"])[whole].stack(0, future_stack=True).assign(std=np.nan))
    table = pd.concat(tables).rename_axis(["dataset", "clients", "method", "metric"]).reset_index()
    table = table.assign(
        table=part.table, dataset=table.dataset.map(title), partition=part.partition
    )
    return table[["table", "dataset", "method", "metric", "mean", "std", "partition", "clients"]]


def known_draws(scores: pd.DataFrame, seeds: Sequence[int]) -> dict[Key, Draws]:
    """Every score that `pace reproduce masks` has measured, as far as it has."""
    chosen = in_order(seeds)[:REDRAW_SEEDS]
    here = scores[scores.data_seed.isin(DRAWS) & scores.seed.isin(chosen) & (scores.model == "gcn")]
    known: dict[Key, Draws] = {}
    metrics = [*SCORES, *SHARES[:2]]
    for part in (PARTS[name] for name in OWN if name.startswith("masks")):
        setting = (here.partition == part.partition) & (here.clients == part.clients[0])
        found = of_rows(here[setting & here.dataset.isin(part.datasets)], part.rows)
        groups = found.groupby(["dataset", "label", "data_seed"])
        means = groups[metrics].mean()[groups.size() == len(chosen)]
        for (dataset, label), draws in means.groupby(level=[0, 1]):
            for metric in metrics if len(draws) > 1 else ():
                key = (title(dataset), label, metric, part.partition, part.clients[0])
                known[key] = Draws(tuple(draws[metric]))
    return known


def beside(records: pd.DataFrame, redrawn: Redrawn) -> pd.DataFrame:
    """Our numbers with the paper's, and whether a draw of the masks explains the difference.

    Draws of the same row with ten Louvain clients are borrowed where those of its own setting were not
    made. `reach` is how far two draws and two sets of seeds are apart at most, with 95 %:

        t sqrt(2 s² + (σ² + σ'²) / 5),   s over draws, σ and σ' over our seeds and the paper's
    """
    paper = published().rename(columns={"mean": "published_mean", "std": "published_std"})
    table = records.merge(paper.drop(columns="partition"), on=NUMBER, how="left")
    table["difference"] = table["mean"] - table.published_mean
    keys = list(zip(table.dataset, table.method.replace(SAME), table.metric, strict=True))
    settings = zip(keys, table.partition, table.clients, strict=True)
    own = [redrawn.get((*key, partition, clients)) for key, partition, clients in settings]
    borrowed = (redrawn.get((*key, "louvain", 10)) for key in keys)
    table["spread"] = [mine or other for mine, other in zip(own, borrowed, strict=True)]
    table["borrowed"] = [mine is None for mine in own]
    columns = (table[name] for name in ("difference", "std", "published_std", "spread"))
    table["within_draws"] = [_within(*row) for row in zip(*columns, strict=True)]
    return table


def _within(difference: float, ours: float, theirs: float, draws: Draws | None) -> bool | None:
    if draws is None or np.isnan(difference):
        return None
    seeds = np.nan_to_num(ours) ** 2 + np.nan_to_num(theirs) ** 2
    both = 2 * draws.std**2 + seeds / len(SEEDS)
    reach = student_t(len(draws.values)) * float(np.sqrt(both))
    return bool(abs(difference) <= reach + PRINTED)


def tidy(table: pd.DataFrame) -> pd.DataFrame:
    """One row a number, ours and the paper's, for CSV."""
    pairs = zip(table.spread, table.borrowed, strict=True)
    own = [None if borrowed else draws for draws, borrowed in pairs]
    return table.drop(columns=["spread", "borrowed", "within_draws"]).assign(
        draws=[len(each.values) if each else 0 for each in own],
        draws_mean=[each.mean if each else None for each in own],
        draws_low=[each.interval[0] if each else None for each in own],
        draws_high=[each.interval[1] if each else None for each in own],
        within_draws=table.within_draws,
    )
