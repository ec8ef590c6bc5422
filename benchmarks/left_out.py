"""Does the leave-one-site-out loss, which the server computes from uploads, tell accuracy?

For every map and λ, against the truth that no server sees: the accuracy on each site's test nodes of
what the other sites learn without it. `python -m benchmarks.left_out`, quarter of an hour on one core.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import one_hot

import pace
from pace import task
from pace.graph import Graph
from pace.merging import left_out_loss, solve_rows
from pace.methods.beyond.ridge import stacked_rows
from pace.protocol import Federation, Uploads, Without, steps
from pace.reports import Table
from pace_study.tables import frame_table

METHODS = ("pace-ridge", "pace-ridge-sums")
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
SETTINGS = f"hops=0/1/2/3,strengths={'/'.join(f'{s:g}' for s in STRENGTHS)}"
DATASETS = "cora,citeseer,pubmed"
PARTITIONS = ("louvain", "metis", "dirichlet")
CLIENTS = (5, 10)
Key = tuple[str, float]  # a map and λ


def rows_of(graph: Graph, mask: Tensor, name: str, federation: Federation) -> Tensor:
    """The rows of a mask's nodes by a map."""
    form = federation.closed_form
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


def measure(method: str, dataset: str, partition: str, clients: int) -> dict[str, Any]:
    """How far losses and accuracies of one division agree, by rank (Spearman).

    `choices`: of means over sites, over maps and λ; `sites`: of the chosen map and λ, over sites. `best`
    is the accuracy of the best choice, which needs test labels.
    """
    graphs = list(pace.divide(pace.load(dataset), partition, clients=clients))
    named = f"{method}:{SETTINGS}"
    federation = pace.agree(graphs, named, epochs=1)  # no network is in a regression
    uploads = steps.received([steps.fit(graph, federation)[1] for graph in graphs], federation)
    form = federation.closed_form
    assert form is not None
    parts = form.site_sums(uploads, federation)
    truth = true_accuracies(uploads, graphs, federation)
    losses = torch.stack([left_out_loss(parts[name], strength) for name, strength in truth])
    accuracies = torch.tensor(list(truth.values()))
    nodes = {
        mask: torch.tensor([float(getattr(graph, mask).sum()) for graph in graphs])
        for mask in ("train", "test")
    }
    loss = losses @ (nodes["train"] / nodes["train"].sum()).double()
    accuracy = accuracies @ (nodes["test"] / nodes["test"].sum())
    place = int(loss.argmin())
    name, strength = list(truth)[place]
    return {
        "method": method,
        "setting": f"{method}: {dataset}, {partition}, {clients}",
        "choices": ranked(loss, accuracy),
        "sites": ranked(losses[place], accuracies[place]),
        "chosen": f"{name}, λ = {strength:g}",
        "accuracy": 100 * float(accuracy[place]),
        "best": 100 * float(accuracy.max()),
    }


def agreement_table(found: pd.DataFrame) -> Table:
    """Every division, then the means of each method."""
    by_method = found.groupby("method", sort=False)
    means = by_method[["choices", "sites", "accuracy", "best"]].mean()
    counts = by_method.size().astype(str)
    means = means.assign(setting=means.index + ": mean of " + counts, chosen="")
    columns = [("Setting", "setting", ""), ("Over maps and λ", "choices", ".2f")]
    columns += [("Over sites", "sites", ".2f"), ("Chosen", "chosen", "")]
    columns += [("Its accuracy", "accuracy", ".2f"), ("Best", "best", ".2f")]
    caption = "Leave-one-site-out loss and true accuracy, by rank"
    return frame_table(caption, pd.concat([found, means]), columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default=DATASETS)
    datasets = parser.parse_args().datasets.split(",")
    torch.set_num_threads(1)
    found = []
    for setting in product(METHODS, datasets, PARTITIONS, CLIENTS):
        found.append(measure(*setting))
        print(found[-1], flush=True)
    print(agreement_table(pd.DataFrame(found)).markdown())


if __name__ == "__main__":
    main()
