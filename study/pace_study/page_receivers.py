"""Receiver by receiver, for the study's page: who admits what, who gains, and which nodes move."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from pace.datasets.partition.split import DATA_SEED
from pace.merging.carrier import RANK
from pace.reports import Choice, Column, Drilldown, Matrix, Table, Value, View
from pace.reports.trial import Trial
from pace.task import accuracy, pooled
from pace_study.cell import Cell
from pace_study.diagnostics import paired, receivers
from pace_study.folder import Study
from pace_study.page_tables import signed
from pace_study.records import title
from pace_study.study import PARTS, in_order
from pace_study.tables import METRIC

EVERY = "all seeds"


def gains(study: Study) -> Table:
    """PACE against Local over seeds, and over receivers: the numbers behind the figure."""
    rows = []
    for name in study.datasets:
        part = replace(PARTS["diagnostics"], datasets=(name,))
        seeds = study.seeds_of(part, name)
        each = receivers(part, study.store, seeds) if seeds else []
        for difference in paired(part, study.store, seeds) if each else []:
            low, high = difference.interval
            helped = each[0].counts
            rows.append(
                (
                    Value(difference.dataset, difference.dataset),
                    Value(METRIC[difference.metric], METRIC[difference.metric]),
                    Value(signed(difference.mean), difference.mean),
                    Value(
                        f"{signed(low)} to {signed(high)}" if len(seeds) > 1 else "one seed", low
                    ),
                    Value("{} / {} / {}".format(*difference.counts), difference.counts[0]),
                    Value("{} / {} / {}".format(*helped), helped[0])
                    if difference.metric == "accuracy"
                    else Value(""),
                    Value(signed(each[0].worst), each[0].worst)
                    if difference.metric == "accuracy"
                    else Value(""),
                )
            )
    columns = (
        Column("Dataset", numeric=False),
        Column("Metric", numeric=False),
        Column("PACE − Local"),
        Column("95 % paired t"),
        Column("won / tied / lost", "Seeds"),
        Column("helped / tied / harmed", "Receivers"),
        Column("worst", "Receivers"),
    )
    return Table(
        "PACE against Local at C = 10, in points",
        columns,
        tuple(rows),
        "A receiver counts once for each seed; a difference of 0.01 point or less is a tie. "
        "The worst receiver is the lowest mean over seeds.",
    )


def drilldown(study: Study) -> Drilldown:
    """Every setting in which PACE ran at its own rank, on the study's masks."""
    ran = [c for c in study.cells if (c.method, c.rank, c.data_seed) == ("pace", RANK, DATA_SEED)]
    places = {(c.dataset, c.partition, c.clients) for c in ran}
    order = sorted(places, key=lambda p: (study.datasets.index(p[0]), _partition(p[1]), p[2]))
    choices = []
    for dataset, partition, clients in order:
        settings = [
            c for c in ran if (c.dataset, c.partition, c.clients) == (dataset, partition, clients)
        ]
        by_seed = {c.seed: c for c in settings}
        choices.append(_choice(study, [by_seed[seed] for seed in in_order(set(by_seed))]))
    return Drilldown(("Dataset", "Partition", "Clients (C)"), tuple(choices))


def _partition(name: str) -> tuple[bool, str]:
    """The paper's main partition first."""
    return name != "louvain", name


def _choice(study: Study, cells: Sequence[Cell]) -> Choice:
    first, trials = cells[0], [t for cell in cells if (t := study.store.read(cell))]
    seeds = [Column(str(trial.seed), "α by seed") for trial in trials]
    heads = ("Test nodes", "Local (%)", "PACE (%)", "Gain", "Mean α")
    columns = (Column("Receiver", numeric=False), *map(Column, heads), *seeds)
    count = range(len(trials[0].alphas))
    keys = (title(first.dataset), first.partition, str(first.clients))
    return Choice(
        keys,
        Table(
            f"{keys[0]}, {keys[1]}, C = {keys[2]}: each receiver, mean over seeds",
            columns,
            tuple(_row(trials, receiver) for receiver in count),
        ),
        tuple(_views(trials, receiver) for receiver in count),
    )


def _row(trials: Sequence[Trial], receiver: int) -> tuple[Value, ...]:
    nodes = int(trials[0].counts["local"][receiver].sum())
    local, ours = (
        statistics.fmean(100 * accuracy(trial.counts[reading][receiver]) for trial in trials)
        for reading in ("local", "adopted")
    )
    alphas = [trial.alphas[receiver] for trial in trials]
    mean = statistics.fmean(alphas)
    return (
        Value(f"Receiver {receiver}", f"Receiver {receiver}"),
        Value(str(nodes), nodes),
        Value(f"{local:.2f}", local),
        Value(f"{ours:.2f}", ours),
        Value(signed(ours - local), ours - local),
        Value(f"{mean:.3f}", mean, share=mean),
        *(Value(f"{alpha:.3f}", alpha, share=alpha) for alpha in alphas),
    )


def _views(trials: Sequence[Trial], receiver: int) -> tuple[View, ...]:
    """All seeds together, then each."""
    views = [_view(str(trial.seed), [trial], receiver) for trial in trials]
    return (_view(EVERY, trials, receiver), *views) if len(views) > 1 else tuple(views)


def _view(name: str, trials: Sequence[Trial], receiver: int) -> View:
    alpha = statistics.fmean(trial.alphas[receiver] for trial in trials)
    local, ours = (
        pooled(trial.counts[reading][receiver] for trial in trials)
        for reading in ("local", "adopted")
    )
    before, after = 100 * accuracy(local), 100 * accuracy(ours)
    several = f" in {len(trials)} seeds" if len(trials) > 1 else ""
    text = (
        f"{'Mean α' if several else 'α'} {alpha:.3f}. Local {before:.2f} %, PACE {after:.2f} %: "
        f"{signed(after - before)} points on {int(local.sum())} test nodes{several}."
    )
    return View(name, text, (Matrix("Local", _text(local)), Matrix("PACE", _text(ours))))


def _text(counts: Tensor) -> str:
    return ";".join(" ".join(map(str, row)) for row in counts.tolist())
