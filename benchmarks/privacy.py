"""What a server learns about a site: attacks on an upload, and on the sums alone, by method.

    python -m benchmarks.privacy [--seeds 5] [--out docs]

A `View` is what a server can compute from what it was sent; the attacks know nothing else, but for
those that are asked about a node which the attacker already holds. Another method is one more line
of `privacy_views.VIEWS`. Writes privacy.md and privacy.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from scipy.stats import pearsonr, rankdata, spearmanr
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy

from benchmarks.privacy_views import MADE_UP, VIEWS, View
from pace.datasets import load
from pace.datasets.dataset import Dataset
from pace.datasets.partition.divide import divide
from pace.graph import Graph
from pace.methods import Pace
from pace.methods.beyond.ridge import SMALLEST_CLASS
from pace.methods.pace import read
from pace.models.gcn import GCN
from pace.models.unit_rows import unit_rows
from pace.params import Params
from pace.protocol import steps, wire
from pace.protocol.federation import Federation
from pace.protocol.method import Message
from pace.training.train import train_cohort

CLIENTS = 10
SEEDS = (104729, 130363, 155921, 181081, 206639)
PLACES = ("synthetic", "cora")
RARE = 1e-3  # of a mean moment: what a word costs that a site's moments know nothing of
READ = 0.999  # cosine with a node's row from which on its features were read


def auc(scores: Tensor, positive: Tensor) -> float | None:
    """The chance that a positive one scores higher than a negative one; None without both kinds."""
    hits = int(positive.sum())
    misses = len(positive) - hits
    if not hits or not misses:
        return None
    ranks = rankdata(scores.double().numpy())
    return float(ranks[positive.numpy()].sum() - hits * (hits + 1) / 2) / (hits * misses)


Attack = Callable[[View, Sequence[Graph], int, Federation], float | None]


def word_occurs(
    view: View, graphs: Sequence[Graph], site: int, federation: Federation
) -> float | None:
    """Which words occur in a training node of this site."""
    graph = graphs[site]
    return None if view.words is None else auc(view.words, (graph.x[graph.train] != 0).any(0))


def word_counts(
    view: View, graphs: Sequence[Graph], site: int, federation: Federation
) -> float | None:
    """How often, in order."""
    graph = graphs[site]
    counts = (graph.x[graph.train] != 0).sum(0)
    return None if view.words is None else float(spearmanr(view.words, counts).statistic)


def label_histogram(
    view: View, graphs: Sequence[Graph], site: int, federation: Federation
) -> float | None:
    """How many training nodes of each class."""
    graph = graphs[site]
    counts = torch.bincount(graph.y[graph.train], minlength=federation.model.classes)
    return None if view.classes is None else float(pearsonr(view.classes, counts.float()).statistic)


def membership(
    view: View, graphs: Sequence[Graph], site: int, federation: Federation
) -> float | None:
    """Whether a node of this site was in training, by its loss: training nodes against test nodes."""
    if view.logits is None:
        return None
    graph = graphs[site]
    asked = graph.train | graph.test
    with torch.no_grad():
        logits = view.logits(graph)[asked]
    return auc(-cross_entropy(logits, graph.y[asked], reduction="none"), graph.train[asked])


def membership_by_row(
    view: View, graphs: Sequence[Graph], site: int, federation: Federation
) -> float | None:
    """The same by how much of the node's row lies in what was sent, whatever its label."""
    if view.leverage is None:
        return None
    graph = graphs[site]
    asked = graph.train | graph.test
    return auc(view.leverage(graph)[asked], graph.train[asked])


def whose_node(
    view: View, graphs: Sequence[Graph], site: int, federation: Federation
) -> float | None:
    """Whether a node is of this site, by its words under the moments, against other sites' nodes."""
    if view.words is None:
        return None
    worth = torch.log(view.words.double() / view.words.double().mean() + RARE)
    scores, mine = [], []
    for place, graph in enumerate(graphs):
        x = (graph.x[graph.train] != 0).double()
        scores.append(x @ worth / x.sum(1).clamp_min(1))
        mine.append(torch.full((len(x),), place == site))
    return auc(torch.cat(scores), torch.cat(mine))


def whose_row(
    view: View, graphs: Sequence[Graph], site: int, federation: Federation
) -> float | None:
    """The same by how much of the node's row lies in what this site sent."""
    if view.leverage is None:
        return None
    scores = [view.leverage(graph)[graph.train] for graph in graphs]
    mine = [torch.full((len(each),), place == site) for place, each in enumerate(scores)]
    return auc(torch.cat(scores), torch.cat(mine))


def class_words(
    view: View, graphs: Sequence[Graph], site: int, federation: Federation
) -> float | None:
    """The sum of training nodes' words over each class that is not small, by its direction."""
    if view.class_words is None:
        return None
    graph = graphs[site]
    counts = torch.bincount(graph.training_labels, minlength=federation.model.classes)
    large = (counts >= SMALLEST_CLASS).nonzero().flatten().tolist()
    rows = unit_rows(graph, 0)
    sums = [rows[graph.train & (graph.y == label)].sum(0) for label in large]
    if not sums:
        return None
    return float(cosine_similarity(view.class_words[:, large].T, torch.stack(sums)).mean())


def nodes_read(
    view: View, graphs: Sequence[Graph], site: int, federation: Federation
) -> float | None:
    """The share of training nodes of which what was sent about their class is their own row."""
    if view.class_words is None:
        return None
    graph = graphs[site]
    sent = view.class_words[:, graph.training_labels]
    alike = cosine_similarity(unit_rows(graph, 0)[graph.train].T, sent, dim=0)
    return float((alike > READ).double().mean())


ATTACKS: Mapping[str, tuple[str, Attack]] = {
    "word_occurs": ("A word occurs in a training node of this site, AUC", word_occurs),
    "word_counts": ("Word counts of this site, Spearman", word_counts),
    "label_histogram": ("Label histogram of this site, Pearson", label_histogram),
    "membership": ("A node of this site was in training, by its loss, AUC", membership),
    "membership_by_row": ("The same, by its row, AUC", membership_by_row),
    "whose_node": ("Whose node is it, by its words, AUC", whose_node),
    "whose_row": ("The same, by its row, AUC", whose_row),
    "class_words": (
        "Words of each class of five training nodes or more, cosine",
        class_words,
    ),
    "nodes_read": ("Training nodes whose words are read whole, share", nodes_read),
}


@dataclass(frozen=True)
class Leak:
    """One attack on one view, the mean over sites and seeds. 0.5 (AUC) or 0 (correlation): nothing."""

    data: str
    attack: str
    view: str
    score: float


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
) -> tuple[list[Leak], float]:
    """All attacks on all views of one graph, and what zero moments rule out."""
    graphs = divide(dataset, "louvain", clients)
    gcn = GCN((dataset.graph.features, hidden, dataset.classes))
    paces = {seed: Federation(gcn, Pace(), seed, epochs) for seed in seeds}
    start = {seed: each.start for seed, each in paces.items()}
    models = train_cohort(graphs, gcn, start, recipe=paces[seeds[0]].recipe)
    scores: dict[tuple[str, str], list[float]] = {}
    excluded = []
    for seed in seeds:
        for name, seen in VIEWS.items():
            federation = Federation(gcn, seen.method, seed, epochs)
            uploads = sent(models[seed], graphs, federation)
            for site in range(clients):
                view = seen.view(uploads, site, federation)
                for key, (_, attack) in ATTACKS.items():
                    score = attack(view, graphs, site, federation)
                    if score is not None:
                        scores.setdefault((key, name), []).append(score)
        excluded.append(ruled_out(sent(models[seed], graphs, paces[seed]), graphs, start[seed]))
    leaks = [
        Leak(dataset.name, name, seen, round(statistics.fmean(values), 4))
        for (name, seen), values in scores.items()
    ]
    return leaks, statistics.fmean(excluded)


def sent(
    models: Sequence[Params], graphs: Sequence[Graph], federation: Federation
) -> list[Message]:
    """Every site's upload as the server reads it, rounded as its numbers are."""
    frames = (
        steps.share(model, graph, federation)[1]
        for model, graph in zip(models, graphs, strict=True)
    )
    return [wire.decode(frame).message for frame in frames]


def page(leaks: Sequence[Leak], excluded: Mapping[str, float], seeds: int) -> str:
    """The table in words."""
    by = {(leak.data, leak.attack, leak.view): leak.score for leak in leaks}
    places = list(dict.fromkeys(leak.data for leak in leaks))
    zero = ", ".join(f"{100 * share:.0f} % on {data}" for data, share in excluded.items())
    tables = "\n\n".join(f"**{data}**\n\n{_table(by, data)}" for data in places)
    return f"""# What the server learns

Attacks by a server that follows the protocol and is curious, on three methods: PACE, and
[`pace-ridge` and `pace-ridge-sums`](beyond.md), which return regressions. *An upload* is what an
open job shows the server of one site; *the sums* over all sites are all that it has in a
[sealed](threat-model.md#sealed-jobs) one. `pace-ridge` cannot be sealed: its server stacks the rows
of all sites. {CLIENTS} sites (Louvain), mean over sites and {seeds} seeds. An AUC of 0.5 and a
correlation of 0 mean that nothing was learnt; "-": the method sends nothing of this kind. Made by
`make privacy`.

{tables}

Of PACE, words are ranked by the first layer's moments, and classes by what the model that the upload
stands for says, on average, of {MADE_UP} nodes that the attacker makes up with words drawn by the
moments. Of the regressions, words and classes come from the class sums at hop 0, which `pace-ridge`'s
rows give nearly exactly and `pace-ridge-sums` sends. Membership compares the loss of a site's
training nodes with that of its test nodes under the model that the upload stands for; the attacker
holds the nodes, their edges and labels, and asks only whether they were trained on. *By its row*:
how much of the node's row lies in the span of what was sent. *Whose node* is asked of the training
nodes of all sites. *Read whole*: what is sent about a node's class is that node's row, to a cosine
of {READ}.

- Rank 6 protects nothing here: the attacks use the carrier, not the model that was trained.
- A moment that is exactly zero is certain knowledge. Of other sites' training nodes it rules
  out {zero}.
- `pace-ridge` leaves out classes with fewer than five training nodes, so that nobody's words are
  read whole; `pace-ridge-sums` leaves out nothing and belongs in a sealed job.
- These are simple attacks, and lower bounds: others may learn more. No formal privacy is promised,
  see the [threat model](threat-model.md).
- With the sums alone every site looks the same: what remains is what all sites have in common. **For
  the regressions that is enough to test a node which the attacker holds**: as long as all sites
  together have fewer training nodes than there are features, the sums span their rows and little
  else, so that a row can be told to be among them. Whose it is stays unknown.
"""


def _table(by: Mapping[tuple[str, str, str], float], data: str) -> str:
    lines = [["Attack", *VIEWS], ["---"] * (1 + len(VIEWS))]
    for name, (title, _) in ATTACKS.items():
        found = (by.get((data, name, seen)) for seen in VIEWS)
        lines.append([title, *("-" if score is None else f"{score:.2f}" for score in found)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--out", type=Path, default=Path("docs"))
    given = parser.parse_args(words)
    torch.set_num_threads(1)
    leaks: list[Leak] = []
    excluded: dict[str, float] = {}
    for data in PLACES:
        found, excluded[data] = measured(load(data), SEEDS[: given.seeds])
        leaks += found
    text = page(leaks, excluded, given.seeds)
    facts = {"leaks": [asdict(leak) for leak in leaks], "ruled_out": excluded}
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "privacy.md").write_text(text)
    (given.out / "privacy.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
