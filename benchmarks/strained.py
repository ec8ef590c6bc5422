"""Both closed forms where sites lack something: few validation or training nodes, no edge, no meaning.

    python -m benchmarks.strained

prints a table: pooled test accuracy of Local, PACE and both forms, and how many of ten sites end below
Local, on one draw of the masks and one seed. A test of failures, not of merit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from pace.datasets import divide, load
from pace.graph import Graph
from pace.methods import make
from pace.models import GCN
from pace.reports import Table, Trial
from pace.runtimes.simulation import run_trials
from pace.task import accuracy, pooled
from pace_study.cell import HIDDEN
from pace_study.records import title
from pace_study.scores import win_tie_loss
from pace_study.study import CITATION

DRAW, SEED, CLIENTS = 3, 1, 10
METHODS = ("pace", "pace-ridge", "pace-ridge-sums")


def few(mask: Tensor, count: int) -> Tensor:
    """So many nodes of a mask, drawn."""
    nodes = mask.nonzero().flatten()
    order = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))
    kept = torch.zeros_like(mask)
    kept[nodes[order[:count]]] = True
    return kept


def noise(graph: Graph) -> Tensor:
    return torch.randn(graph.x.shape, generator=torch.Generator().manual_seed(graph.nodes))


STRAINS: Mapping[str, Callable[[Graph], Graph]] = {
    "1 validation node": lambda graph: replace(graph, val=few(graph.val, 1)),
    "3 validation nodes": lambda graph: replace(graph, val=few(graph.val, 3)),
    "10 validation nodes": lambda graph: replace(graph, val=few(graph.val, 10)),
    "1 training node": lambda graph: replace(graph, train=few(graph.train, 1)),
    "5 training nodes": lambda graph: replace(graph, train=few(graph.train, 5)),
    "no edge": lambda graph: replace(graph, edges=torch.zeros((2, 0), dtype=torch.int64)),
    "dense features of both signs": lambda graph: replace(graph, x=graph.x + 0.1 * noise(graph)),
    "features are noise": lambda graph: replace(graph, x=noise(graph)),
}


def strained(dataset: str, strain: str) -> dict[str, Trial]:
    loaded = load(dataset)
    graphs = [STRAINS[strain](graph) for graph in divide(loaded, "louvain", CLIENTS, DRAW)]
    gcn = GCN((loaded.graph.features, HIDDEN, loaded.classes))
    methods = {name: make(name) for name in METHODS}
    return {trial.method: trial for trial in run_trials(graphs, gcn, methods, [SEED])}


def strained_row(strain: str, dataset: str, trials: Mapping[str, Trial]) -> list[str]:
    """Pooled accuracy of Local and, with the sites it harms in brackets, of each method."""

    def percent(trial: Trial, reading: str) -> float:
        return 100 * accuracy(pooled(trial.counts[reading]))

    cells = []
    for trial in trials.values():
        pairs = zip(trial.counts["adopted"], trial.counts["local"], strict=True)
        gains = [100 * (accuracy(after) - accuracy(before)) for after, before in pairs]
        cells.append(f"{percent(trial, 'adopted'):.1f} ({win_tie_loss(gains)[2]})")
    return [strain, title(dataset), f"{percent(trials[METHODS[0]], 'local'):.1f}", *cells]


def main() -> None:
    torch.set_num_threads(1)
    rows = [
        strained_row(strain, dataset, strained(dataset, strain))
        for strain, dataset in product(STRAINS, CITATION)
    ]
    heads = ["Every site has", "Graph", "Local", *METHODS]
    print(Table.of("", heads, rows, names=2, words=0).markdown())


if __name__ == "__main__":
    main()
