"""Does the leave-one-site-out loss, which the server computes from uploads, tell accuracy?

For every map and λ of pace-ridge, against the truth that no server sees: the accuracy on each site's
test nodes of what the other sites learn without it. `python -m benchmarks.left_out`, ten minutes.
"""

from itertools import product
from typing import Any

import pandas as pd
from scipy.stats import spearmanr

import pace
from benchmarks.clock import command
from pace import task
from pace.merging import left_out_loss, solve_rows
from pace.methods import Regression
from pace.protocol import Without, steps

STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
METHOD = f"pace-ridge:hops=0/1/2/3,strengths={'/'.join(f'{s:g}' for s in STRENGTHS)}"
DATASETS, PARTITIONS = ("cora", "citeseer", "pubmed"), ("louvain", "metis", "dirichlet")
CLIENTS = (5, 10)


def measure(dataset: str, partition: str, clients: int) -> dict[str, Any]:
    """How far losses and accuracies of one division agree, by rank (Spearman).

    `choices`: of means over sites, over maps and λ; `sites`: of the chosen map and λ, over sites. `best`
    is the accuracy of the best choice, which needs test labels.
    """
    graphs = pace.divide(pace.load(dataset), partition, clients=clients)
    federation = pace.agree(graphs, METHOD, epochs=1)  # no network is in a regression
    uploads = steps.received([steps.fit(graph, federation)[1] for graph in graphs], federation)
    form = federation.closed_form
    assert form is not None
    losses = pd.DataFrame(
        {
            (name, strength): left_out_loss(parts, strength).tolist()
            for name, parts in form.site_sums(uploads, federation).items()
            for strength in STRENGTHS
        }
    )
    truth = pd.DataFrame(0.0, losses.index, losses.columns)
    for site, graph in enumerate(graphs):  # on its test nodes, of the rows that the others sent
        (batch,) = Without(uploads, site, clients).batches()
        tested = form.rows_of(graph, graph.test.nonzero().flatten(), federation)
        for name in losses.columns.unique(0):
            rows, labels = Regression(name, "train").stacked_rows(batch)
            sent = rows.any(1)
            solved = solve_rows(rows[sent], labels[sent].to(rows.dtype), STRENGTHS)
            for strength, answer in zip(STRENGTHS, solved, strict=True):
                logits = tested[name] @ answer.to(tested[name].dtype)
                counts = task.counted(logits, graph.y[graph.test], federation.model.classes)
                truth.loc[site, (name, strength)] = task.accuracy(counts)

    def mean(of_sites: pd.DataFrame, mask: str) -> pd.Series:
        nodes = [int(getattr(graph, mask).sum()) for graph in graphs]
        return of_sites.mul(nodes, axis=0).sum() / sum(nodes)

    loss, accuracy = mean(losses, "train"), mean(truth, "test")
    chosen = loss.idxmin()
    return {
        "setting": f"{dataset}, {partition}, {clients}",
        "choices": spearmanr(-loss, accuracy).statistic,
        "sites": spearmanr(-losses[chosen], truth[chosen]).statistic,
        "chosen": "{}, λ = {:g}".format(*chosen),
        "accuracy": 100 * accuracy[chosen],
        "best": 100 * accuracy.max(),
    }


def main() -> None:
    """Print a row for each division, and the means."""
    rows = pd.DataFrame([measure(*case) for case in product(DATASETS, PARTITIONS, CLIENTS)])
    print(rows.to_string(index=False, float_format="{:.2f}".format))
    print(rows.mean(numeric_only=True).to_string(float_format="{:.2f}".format))


if __name__ == "__main__":
    command(main)
