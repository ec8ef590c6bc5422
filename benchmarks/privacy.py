"""What a server learns about a site: attacks on an upload, and on the sums alone, by method.

    python -m benchmarks.privacy [--seeds 5] [--out results]

A method's `reading` is what a server can compute from what it was sent; the attacks know nothing else,
but for those that are asked about a node which the attacker already holds. Another method is one line
of `VIEWS`. Writes tables/privacy.md, which docs/privacy.md explains.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from scipy.stats import pearsonr, spearmanr
from torch import Tensor
from torch.nn.functional import cosine_similarity

from pace.datasets import Dataset, divide, load
from pace.graph import Graph
from pace.methods import Pace, PaceRidge, RidgeSums, read
from pace.methods.beyond.ridge import SMALLEST_CLASS
from pace.models import GCN, unit_rows
from pace.params import Params
from pace.protocol import SEEDS, Federation, Message, Messages, Method, Reading, steps, wire
from pace.reports import Table
from pace.runtimes.files import attacks
from pace.training import train_cohort
from pace_study.tables import write_tables

CLIENTS = 10
PLACES = ("synthetic", "cora")
RARE = 1e-3  # of a mean moment: what a word costs that a site's moments know nothing of
Scores = dict[str, float]


@dataclass(frozen=True)
class Seen:
    """One method, and whether the server has sums only."""

    method: Method
    sums: bool = False

    def view(self, uploads: Sequence[Message], site: int, federation: Federation) -> Reading:
        """What can be read about a site; of sums it is the same for every site."""
        seen = uploads if self.sums else [uploads[site]]
        return federation.method.explain(Messages(seen), federation).reading()


VIEWS: Mapping[str, Seen] = {
    "PACE: an upload": Seen(Pace()),
    "PACE: the sums": Seen(Pace(), sums=True),
    "pace-ridge: an upload": Seen(PaceRidge()),
    "pace-ridge-sums: an upload": Seen(RidgeSums()),
    "pace-ridge-sums: the sums": Seen(RidgeSums(), sums=True),
}


# Each attack takes what was read, all graphs, and the site that is asked about; None: nothing to read.


def word_occurs(view: Reading, graphs: Sequence[Graph], site: int) -> float | None:
    """Which words occur in a training node of this site."""
    graph = graphs[site]
    found = (graph.x[graph.train] != 0).any(0)
    return None if view.words is None else attacks.auc(view.words.double(), found)


def word_counts(view: Reading, graphs: Sequence[Graph], site: int) -> float | None:
    """How often, in order."""
    graph = graphs[site]
    counts = (graph.x[graph.train] != 0).sum(0)
    return None if view.words is None else float(spearmanr(view.words, counts).statistic)


def label_histogram(view: Reading, graphs: Sequence[Graph], site: int) -> float | None:
    """How many training nodes of each class."""
    if view.classes is None:
        return None
    counts = torch.bincount(graphs[site].training_labels, minlength=len(view.classes))
    return float(pearsonr(view.classes, counts.double()).statistic)


def whose_node(view: Reading, graphs: Sequence[Graph], site: int) -> float | None:
    """Whether a node is of this site, by its words under the moments, against other sites' nodes."""
    if view.words is None:
        return None
    worth = torch.log(view.words.double() / view.words.double().mean() + RARE)
    rows = [(graph.x[graph.train] != 0).double() for graph in graphs]
    return _whose([x @ worth / x.sum(1).clamp_min(1) for x in rows], site)


def whose_row(view: Reading, graphs: Sequence[Graph], site: int) -> float | None:
    """The same by how much of the node's row lies in what this site sent."""
    if view.leverage is None:
        return None
    return _whose([view.leverage(graph)[graph.train] for graph in graphs], site)


def _whose(scores: Sequence[Tensor], site: int) -> float | None:
    mine = [torch.full((len(each),), place == site) for place, each in enumerate(scores)]
    return attacks.auc(torch.cat(list(scores)), torch.cat(mine))


def class_words(view: Reading, graphs: Sequence[Graph], site: int) -> float | None:
    """The sum of training nodes' words over each class that is not small, by its direction."""
    graph, sums = graphs[site], view.class_words
    if sums is None:
        return None
    counts = torch.bincount(graph.training_labels, minlength=sums.shape[1])
    large = (counts >= SMALLEST_CLASS).nonzero().flatten().tolist()
    rows = unit_rows(graph, 0)
    own = [rows[graph.train & (graph.y == label)].sum(0) for label in large]
    return float(cosine_similarity(sums[:, large].T, torch.stack(own)).mean()) if own else None


def nodes_read(view: Reading, graphs: Sequence[Graph], site: int) -> float | None:
    """The share of training nodes of which what was sent about their class is their own row."""
    graph = graphs[site]
    if view.class_words is None:
        return None
    sent = view.class_words[:, graph.training_labels]
    alike = cosine_similarity(unit_rows(graph, 0)[graph.train].T, sent, dim=0)
    return float((alike > attacks.WHOLE).double().mean())


ATTACKS: Mapping[str, tuple[str, Callable[[Reading, Sequence[Graph], int], float | None]]] = {
    "word_occurs": ("A word occurs in a training node of this site, AUC", word_occurs),
    "word_counts": ("Word counts of this site, Spearman", word_counts),
    "label_histogram": ("Label histogram of this site, Pearson", label_histogram),
    "whose_node": ("Whose node is it, by its words, AUC", whose_node),
    "whose_row": ("The same, by its row, AUC", whose_row),
    "class_words": ("Words of each class of five training nodes or more, cosine", class_words),
    "nodes_read": ("Training nodes whose words are read whole, share", nodes_read),
}
MEMBERSHIP = {  # by attack: its title
    "loss": "A node of this site was in training, by its loss, AUC",
    "moments": "The same, by the moments, AUC",
    "row": "The same, by its row, AUC",
    "features": "The same, by the features of its class, AUC",
    "combined": "The same, all combined on held-out nodes, AUC",
}
TITLES = {name: title for name, (title, _) in ATTACKS.items()} | MEMBERSHIP


def attacked(view: Reading, graphs: Sequence[Graph], site: int, federation: Federation) -> Scores:
    """The score of each attack that the reading allows."""
    known = replace(view, classes=attacks.told_classes(view, federation))
    scores = {name: attack(known, graphs, site) for name, (_, attack) in ATTACKS.items()}
    graph = graphs[site]
    nodes = (mask.nonzero().flatten() for mask in (graph.train, graph.test))
    scores |= attacks.membership(view, graph, federation, *nodes)
    return {name: score for name, score in scores.items() if score is not None}


def ruled_out(uploads: Sequence[Message], graphs: Sequence[Graph], start: Params) -> float:
    """The share of other sites' training nodes that have a word whose moment is zero at a site."""
    shares = []
    for site, upload in enumerate(uploads):
        absent = next(iter(read(upload, start)[1].values())) == 0
        others = [graph.x[graph.train] for place, graph in enumerate(graphs) if place != site]
        shares.append(float((torch.cat(others)[:, absent] != 0).any(1).double().mean()))
    return statistics.fmean(shares)


def measured(
    dataset: Dataset,
    seeds: Sequence[int],
    *,
    clients: int = CLIENTS,
    hidden: int = 64,
    epochs: int | None = None,
) -> tuple[dict[tuple[str, str], float], float]:
    """Each attack on each view, means over sites and seeds; and what zero moments rule out.

    0.5 (AUC) or 0 (correlation) is nothing.
    """
    graphs = divide(dataset, "louvain", clients)
    gcn = GCN((dataset.graph.features, hidden, dataset.classes))
    paces = {seed: Federation(gcn, Pace(), seed, epochs) for seed in seeds}
    start = {seed: each.start for seed, each in paces.items()}
    models = train_cohort(graphs, gcn, start, recipe=paces[seeds[0]].recipe)
    scores, excluded = defaultdict[tuple[str, str], list[float]](list), []
    for seed in seeds:
        for name, seen in VIEWS.items():
            federation = Federation(gcn, seen.method, seed, epochs)
            uploads = sent(models[seed], graphs, federation)
            for site in range(clients):
                view = seen.view(uploads, site, federation)
                for attack, score in attacked(view, graphs, site, federation).items():
                    scores[attack, name].append(score)
        excluded.append(ruled_out(sent(models[seed], graphs, paces[seed]), graphs, start[seed]))
    means = {key: round(statistics.fmean(values), 4) for key, values in scores.items()}
    return means, statistics.fmean(excluded)


def sent(
    models: Sequence[Params], graphs: Sequence[Graph], federation: Federation
) -> list[Message]:
    """Every site's upload as the server reads it, rounded as its numbers are."""
    frames = (
        steps.share(model, graph, federation)[1]
        for model, graph in zip(models, graphs, strict=True)
    )
    return [wire.decode(frame).message for frame in frames]


def attack_table(data: str, scores: Mapping[tuple[str, str], float]) -> Table:
    """A row for each attack; "-": the method sends nothing of this kind."""
    rows = []
    for attack, title in TITLES.items():
        found = (scores.get((attack, view)) for view in VIEWS)
        rows.append([title, *("-" if score is None else f"{score:.2f}" for score in found)])
    return Table.of(data, ["Attack", *VIEWS], rows, words=0)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--out", type=Path, default=Path("results"))
    given = parser.parse_args(words)
    torch.set_num_threads(1)
    tables = []
    for data in PLACES:
        scores, share = measured(load(data), SEEDS[: given.seeds])
        tables.append(attack_table(data, scores))
        print(f"{data}: a zero moment rules out {100 * share:.0f} % of other sites' training nodes")
    write_tables(given.out, "privacy", tables)


if __name__ == "__main__":
    main()
