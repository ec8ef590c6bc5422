"""What a server learns about a site: attacks on an upload, and on the sums alone, by method.

    python -m benchmarks.privacy [--seeds 5] [--out results]

A method's `reading` is what a server can compute from what it was sent; the attacks know nothing else,
but for those that are asked about a node which the attacker already holds. Another method is one line
of `VIEWS`. Writes tables/privacy.md, which docs/privacy.md explains.
"""

from collections.abc import Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from scipy.stats import spearmanr
from torch import Tensor
from torch.nn.functional import cosine_similarity

import pace
from benchmarks.backdoor import trained
from benchmarks.clock import command
from pace import Federation, Graph, Message
from pace.methods import PaceRidge, RidgeSums
from pace.methods.beyond.ridge import SMALLEST_CLASS
from pace.models import unit_rows
from pace.params import Params
from pace.protocol import SEEDS, Messages, Reading, steps
from pace.reports import Table
from pace.runtimes.files import attacks
from pace.task import roc_auc
from pace_study.tables import frame_table, write_tables

PLACES = ("synthetic", "cora")
SUMS = "the sums"  # are all that the server has, the same for every site
VIEWS: Mapping[str, pace.Method] = {
    "PACE: an upload": pace.Pace(),
    f"PACE: {SUMS}": pace.Pace(),
    "pace-ridge: an upload": PaceRidge(),
    "pace-ridge-sums: an upload": RidgeSums(),
    f"pace-ridge-sums: {SUMS}": RidgeSums(),
}
TITLES = {
    "word_occurs": "A word occurs in a training node of this site, AUC",
    "word_counts": "Word counts of this site, Spearman",
    "label_histogram": "Label histogram of this site, Pearson",
    "whose_node": "Whose node is it, by its words, AUC",
    "whose_row": "The same, by its row, AUC",
    "class_words": "Words of each class of five training nodes or more, cosine",
    "nodes_read": "Training nodes whose words are read whole, share",
    "ruled_out": "Training nodes of other sites that a moment of zero rules out, share",
    "loss": "A node of this site was in training, by its loss, AUC",
    "moments": "The same, by the moments, AUC",
    "row": "The same, by its row, AUC",
    "features": "The same, by the features of its class, AUC",
    "combined": "The same, all combined on held-out nodes, AUC",
}


def attacked(
    view: Reading, graphs: Sequence[Graph], site: int, federation: Federation
) -> dict[str, float | None]:
    """The score of each attack that the reading allows: those that a site makes itself, and more."""
    graph = graphs[site]
    risk = attacks.attack(view, graph, federation)
    scores = {"word_occurs": risk.words, "label_histogram": risk.labels, **risk.membership}
    if (words := view.words) is not None:
        rows = [(graph.x[graph.train] != 0).double() for graph in graphs]
        scores["word_counts"] = float(spearmanr(words, rows[site].sum(0)).statistic)
        # What a word is worth under the moments; one that they know nothing of costs log 1000.
        worth = torch.log(words.double() / words.double().mean() + 1e-3)
        scores["whose_node"] = _whose([x @ worth / x.sum(1).clamp_min(1) for x in rows], site)
    for moment in islice(view.moments.values(), 1):  # of the first layer: of words
        rows = [graph.x[graph.train] for other, graph in enumerate(graphs) if other != site]
        impossible = torch.cat(rows)[:, moment == 0] != 0
        scores["ruled_out"] = float(impossible.any(1).double().mean())
    if view.leverage is not None:
        scores["whose_row"] = _whose([view.leverage(graph)[graph.train] for graph in graphs], site)
    if (sums := view.class_words) is not None:
        labels, sent = graph.training_labels, unit_rows(graph, 0)[graph.train]
        large = graph.training_counts(sums.shape[1]) >= SMALLEST_CLASS
        if large.any():
            own = torch.stack([sent[labels == label].sum(0) for label in large.nonzero()])
            scores["class_words"] = float(cosine_similarity(sums[:, large].T, own).mean())
        alike = cosine_similarity(sent.T, sums[:, labels], dim=0)
        scores["nodes_read"] = float((alike > attacks.WHOLE).double().mean())
    return scores


def _whose(scores: Sequence[Tensor], site: int) -> float | None:
    """How well scores tell a site's training nodes from other sites'."""
    mine = [torch.full((len(own),), index == site) for index, own in enumerate(scores)]
    return roc_auc(torch.cat(list(scores)), torch.cat(mine))


def measured(
    dataset: pace.Dataset, seeds: Sequence[int], clients: int = 10, **settings: Any
) -> pd.DataFrame:
    """Each attack, a row, on each view, means over sites and seeds.

    0.5 (AUC) or 0 (correlation) is nothing, nan where a method sends nothing of this kind.
    """
    graphs = pace.divide(dataset, "louvain", clients)
    models, scores = trained(graphs, pace.agree(graphs, **settings), seeds), []
    for seed, (name, method) in product(seeds, VIEWS.items()):
        federation = pace.agree(graphs, method, seed=seed, **settings)
        uploads = sent(models[seed], graphs, federation)
        for site in range(clients):
            view = viewed(name, uploads, site, federation)
            scores.append({"view": name, **attacked(view, graphs, site, federation)})
    return pd.DataFrame(scores).groupby("view", sort=False).mean().T


def sent(
    models: Sequence[Params], graphs: Sequence[Graph], federation: Federation
) -> list[Message]:
    """Every site's upload as the server reads it, rounded as its numbers are."""
    pairs = zip(models, graphs, strict=True)
    return [steps.check_upload(steps.share(*pair, federation)[1], federation) for pair in pairs]


def viewed(name: str, uploads: Sequence[Message], site: int, federation: Federation) -> Reading:
    """What can be read about a site in a view."""
    seen = uploads if name.endswith(SUMS) else [uploads[site]]
    return federation.method.explain(Messages(seen), federation).reading()


def attack_table(data: str, scores: pd.DataFrame) -> Table:
    """A row for each attack; "-": the method sends nothing of this kind."""
    columns = [("Attack", "attack", ""), *((view, view, ".2f") for view in scores)]
    frame = scores.reindex(TITLES).rename(TITLES).rename_axis("attack").reset_index()
    return frame_table(data, frame, columns)


def main(seeds: int = len(SEEDS), out: Path = Path("results")) -> None:
    """Write tables/privacy.md."""
    tables = [attack_table(data, measured(pace.load(data), SEEDS[:seeds])) for data in PLACES]
    write_tables(out, "privacy", tables)


if __name__ == "__main__":
    command(main)
