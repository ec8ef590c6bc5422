"""Does the leave-one-site-out loss, which the server computes from uploads, tell accuracy?

For every map and λ, against the truth that no server sees: the accuracy on each site's test nodes of
what the other sites learn without it. `python -m benchmarks.left_out`, quarter of an hour on one core.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor
from torch.nn.functional import one_hot

import pace
from pace import task
from pace.graph import Graph
from pace.merging import left_out_loss, solve_rows
from pace.methods.beyond.ridge import stacked_rows
from pace.protocol import Federation, Uploads, Without, site_sums, steps
from pace.reports import Table

METHODS = ("pace-ridge", "pace-ridge-sums")
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
SETTINGS = f"hops=0/1/2/3,strengths={'/'.join(f'{s:g}' for s in STRENGTHS)}"
DATASETS = "cora,citeseer,pubmed"
PARTITIONS = ("louvain", "metis", "dirichlet")
CLIENTS = (5, 10)
Key = tuple[str, float]  # a map and λ


@dataclass(frozen=True)
class Agreement:
    """How far losses and accuracies of one division agree, by rank (Spearman)."""

    setting: str
    over_choices: float  # of means over sites, over maps and λ
    over_sites: float  # of the chosen map and λ, over sites
    chosen: Key
    accuracy: float  # of what was chosen
    best: float  # of the best choice, which needs test labels


def rows_of(graph: Graph, mask: Tensor, name: str, federation: Federation) -> Tensor:
    """The rows of a mask's nodes by a map."""
    form = federation.method.closed_form
    assert form is not None
    return form.rows_of(graph, mask.nonzero().flatten(), federation)[name]


def answers(
    uploads: Uploads, site: int, graphs: list[Graph], name: str, federation: Federation
) -> Tensor:
    """W of each λ without a site: of the rows that were sent, or of all rows where sums were."""
    if federation.method.needs:  # its server reads rows
        (batch,) = Without(uploads, site, len(graphs)).batches()
        rows, labels = stacked_rows(batch, name, "train")
    else:
        others = [graph for index, graph in enumerate(graphs) if index != site]
        rows = torch.cat([rows_of(graph, graph.train, name, federation) for graph in others])
        known = torch.cat([graph.y[graph.train] for graph in others])
        labels = one_hot(known, federation.model.classes)
    sent = rows.any(1)
    return solve_rows(rows[sent], labels[sent].to(rows.dtype), STRENGTHS)


def true_accuracies(
    uploads: Uploads, graphs: list[Graph], federation: Federation
) -> dict[Key, list[float]]:
    """On each site's test nodes, of what the others learn."""
    maps = [f"hop{hop}" for hop in range(4)]
    found: dict[Key, list[float]] = {key: [] for key in product(maps, STRENGTHS)}
    for name, (site, graph) in product(maps, enumerate(graphs)):
        rows = rows_of(graph, graph.test, name, federation)
        labels, classes = graph.y[graph.test], federation.model.classes
        solved = answers(uploads, site, graphs, name, federation)
        for strength, answer in zip(STRENGTHS, solved, strict=True):
            counts = task.counted(rows @ answer.to(rows.dtype), labels, classes)
            found[name, strength].append(task.accuracy(counts))
    return found


def ranked(losses: Tensor, accuracies: Tensor) -> float:
    """Spearman's correlation: 1 where a lower loss always is a higher accuracy."""
    from scipy.stats import spearmanr

    return float(spearmanr(-losses.numpy(), accuracies.numpy()).statistic)


def measure(method: str, dataset: str, partition: str, clients: int) -> Agreement:
    graphs = list(pace.divide(pace.load(dataset), partition, clients=clients))
    federation = pace.agree(
        graphs, f"{method}:{SETTINGS}", epochs=1
    )  # no network is in a regression
    uploads = steps.received([steps.fit(graph, federation)[1] for graph in graphs], federation)
    parts = site_sums(uploads, federation)
    truth = true_accuracies(uploads, graphs, federation)
    losses = torch.stack([left_out_loss(parts[key], key[1]) for key in truth])
    accuracies = torch.tensor(list(truth.values()))
    nodes = {
        mask: torch.tensor([float(getattr(graph, mask).sum()) for graph in graphs])
        for mask in ("train", "test")
    }
    loss = losses @ (nodes["train"] / nodes["train"].sum()).double()
    accuracy = accuracies @ (nodes["test"] / nodes["test"].sum())
    chosen = int(loss.argmin())
    return Agreement(
        f"{method}: {dataset}, {partition}, {clients}",
        over_choices=ranked(loss, accuracy),
        over_sites=ranked(losses[chosen], accuracies[chosen]),
        chosen=list(truth)[chosen],
        accuracy=float(accuracy[chosen]),
        best=float(accuracy.max()),
    )


def agreement_table(found: list[Agreement]) -> Table:
    rows = []
    for one in found:
        chosen = f"{one.chosen[0]}, λ = {one.chosen[1]:g}"
        numbers = [f"{number:.2f}" for number in (one.over_choices, one.over_sites)]
        scores = [f"{100 * score:.2f}" for score in (one.accuracy, one.best)]
        rows.append([one.setting, *numbers, chosen, *scores])
    for method in METHODS:
        some = [one for one in found if one.setting.startswith(f"{method}:")]
        if some:
            means = [
                statistics.fmean(getattr(one, name) for one in some)
                for name in ("over_choices", "over_sites", "accuracy", "best")
            ]
            numbers = [f"{mean:.2f}" for mean in means[:2]]
            scores = [f"{100 * mean:.2f}" for mean in means[2:]]
            rows.append([f"{method}: mean of {len(some)}", *numbers, "", *scores])
    heads = ["Setting", "Over maps and λ", "Over sites", "Chosen", "Its accuracy", "Best"]
    return Table.of("Leave-one-site-out loss and true accuracy, by rank", heads, rows, words=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default=DATASETS)
    datasets = parser.parse_args().datasets.split(",")
    torch.set_num_threads(1)
    found = []
    for setting in product(METHODS, datasets, PARTITIONS, CLIENTS):
        found.append(measure(*setting))
        print(found[-1], flush=True)
    print(agreement_table(found).markdown())


if __name__ == "__main__":
    main()
