"""Does the leave-one-site-out loss, which the server computes from uploads, tell accuracy?

For every map and λ of pace-ridge, against the truth that no server sees: the accuracy on each site's
test nodes of what the other sites learn without it. `python -m benchmarks.left_out`, ten minutes.
"""

from collections import defaultdict
from itertools import product
from typing import Any

import pandas as pd
import torch
from scipy.stats import spearmanr

import pace
from pace import task
from pace.graph import Graph
from pace.merging import left_out_loss, solve_rows
from pace.methods.beyond.ridge import stacked_rows
from pace.protocol import ClosedForm, Federation, Uploads, Without, steps
from pace_study.tables import frame_table

STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
METHOD = f"pace-ridge:hops=0/1/2/3,strengths={'/'.join(f'{s:g}' for s in STRENGTHS)}"
DATASETS, PARTITIONS = ("cora", "citeseer", "pubmed"), ("louvain", "metis", "dirichlet")
CLIENTS = (5, 10)
Key = tuple[str, float]  # a map and λ
COLUMNS = (
    ("Setting", "setting", ""),
    ("Over maps and λ", "choices", ".2f"),
    ("Over sites", "sites", ".2f"),
    ("Chosen", "chosen", ""),
    ("Its accuracy", "accuracy", ".2f"),
    ("Best", "best", ".2f"),
)


def true_accuracies(
    uploads: Uploads, graphs: list[Graph], federation: Federation, form: ClosedForm
) -> dict[Key, list[float]]:
    """On each site's test nodes, of what the others learn from the rows that they sent."""
    found = defaultdict[Key, list[float]](list)
    for site, graph in enumerate(graphs):
        (batch,) = Without(uploads, site, len(graphs)).batches()
        tested = form.rows_of(graph, graph.test.nonzero().flatten(), federation)
        for name in (f"hop{hop}" for hop in range(4)):
            rows, labels = stacked_rows(batch, name, "train")
            sent = rows.any(1)
            solved = solve_rows(rows[sent], labels[sent].to(rows.dtype), STRENGTHS)
            for strength, answer in zip(STRENGTHS, solved, strict=True):
                logits = tested[name] @ answer.to(tested[name].dtype)
                counts = task.counted(logits, graph.y[graph.test], federation.model.classes)
                found[name, strength].append(task.accuracy(counts))
    return found


def measure(dataset: str, partition: str, clients: int) -> dict[str, Any]:
    """How far losses and accuracies of one division agree, by rank (Spearman).

    `choices`: of means over sites, over maps and λ; `sites`: of the chosen map and λ, over sites. `best`
    is the accuracy of the best choice, which needs test labels.
    """
    graphs = list(pace.divide(pace.load(dataset), partition, clients=clients))
    federation = pace.agree(graphs, METHOD, epochs=1)  # no network is in a regression
    uploads = steps.received([steps.fit(graph, federation)[1] for graph in graphs], federation)
    form = federation.closed_form
    assert form is not None
    parts = form.site_sums(uploads, federation)
    truth = true_accuracies(uploads, graphs, federation, form)
    losses = torch.stack([left_out_loss(parts[name], strength) for name, strength in truth])
    accuracies = torch.tensor(list(truth.values()))
    train, test = torch.tensor([[float(g.train.sum()), float(g.test.sum())] for g in graphs]).T
    loss = losses @ (train / train.sum()).double()
    accuracy = accuracies @ (test / test.sum())
    place = int(loss.argmin())
    name, strength = list(truth)[place]
    return {
        "setting": f"{dataset}, {partition}, {clients}",
        "choices": spearmanr(-loss, accuracy).statistic,
        "sites": spearmanr(-losses[place], accuracies[place]).statistic,
        "chosen": f"{name}, λ = {strength:g}",
        "accuracy": 100 * float(accuracy[place]),
        "best": 100 * float(accuracy.max()),
    }


def main() -> None:
    torch.set_num_threads(1)
    found = pd.DataFrame([measure(*case) for case in product(DATASETS, PARTITIONS, CLIENTS)])
    mean = found.mean(numeric_only=True).to_dict() | {"setting": "mean", "chosen": ""}
    caption = "Leave-one-site-out loss and true accuracy, by rank"
    print(frame_table(caption, pd.concat([found, pd.DataFrame([mean])]), COLUMNS).markdown())


if __name__ == "__main__":
    main()
