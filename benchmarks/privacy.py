"""What a server learns about a site: five attacks, against an upload and against the sums alone.

    python -m benchmarks.privacy [--seeds 5] [--out docs]

A `View` is what a server can compute from what it was sent; the attacks know nothing else, but for
the last two, which are asked about a node that the attacker already holds. Another method is one
more function that makes views (see `VIEWS`). Writes privacy.md and privacy.json.
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

from pace.data import load
from pace.data.dataset import Dataset
from pace.graph import Graph
from pace.merging.batches import batches
from pace.merging.carrier import dense
from pace.merging.consensus import consensus
from pace.methods import Pace
from pace.methods.pace import read
from pace.models.gcn import GCN
from pace.params import Params, add
from pace.partition.divide import divide
from pace.protocol import steps, wire
from pace.protocol.federation import Federation
from pace.protocol.method import Message
from pace.training.train import train_cohort

CLIENTS = 10
SEEDS = (104729, 130363, 155921, 181081, 206639)
PLACES = ("synthetic", "cora")
MADE_UP, WORDS = 200, 12  # nodes that the attacker makes up, and words of each
SEEN = 0.3  # a word after it was averaged over a neighbourhood
RARE = 1e-3  # of a mean moment: what a word costs that a site's moments know nothing of


@dataclass(frozen=True, eq=False)
class View:
    """What is known about one site. Where a method tells nothing of a kind, None."""

    words: Tensor | None  # (features,): the larger, the more of this word
    classes: Tensor | None  # (classes,): the larger, the more nodes of this class
    model: Params | None  # a model to compute a node's loss with


def of_upload(uploads: Sequence[Message], site: int, federation: Federation) -> View:
    """The server has the site's own upload."""
    carrier, moments = read(uploads[site], federation.start)
    return _view(dense(carrier), next(iter(moments.values())), federation)


def of_sums(uploads: Sequence[Message], site: int, federation: Federation) -> View:
    """The server has Σ Δ C, Σ C and the sum of biases: the same view of every site."""
    pairs = [read(batch, federation.start) for batch in batches(uploads)]
    first = [next(iter(moments.values())).sum(0) for _, moments in pairs]
    shared = {name: value.float() for name, value in consensus(pairs).items()}
    return _view(shared, torch.stack(first).sum(0), federation)


def _view(update: Params, moment: Tensor, federation: Federation) -> View:
    """Words by the first layer's moments; classes by what the model says of nodes made up from these."""
    model = add(federation.start, update)
    return View(moment, mean_prediction(model, moment, federation), model)


def mean_prediction(model: Params, moment: Tensor, federation: Federation) -> Tensor:
    """The mean class probabilities of nodes without neighbours whose words are drawn by the moments."""
    random = torch.Generator().manual_seed(0)
    drawn = torch.multinomial(moment, MADE_UP * WORDS, replacement=True, generator=random)
    x = torch.zeros(MADE_UP, len(moment)).scatter_(1, drawn.view(MADE_UP, WORDS), SEEN)
    nobody = torch.zeros(MADE_UP, dtype=torch.bool)
    alone = torch.zeros(2, 0, dtype=torch.int64)
    graph = Graph(x, alone, torch.zeros(MADE_UP, dtype=torch.int64), nobody, nobody, nobody)
    with torch.no_grad():
        return federation.network(model, graph).logits.softmax(1).mean(0)


VIEWS: Mapping[str, Callable[[Sequence[Message], int, Federation], View]] = {
    "an upload": of_upload,
    "the sums": of_sums,
}


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
    if view.model is None:
        return None
    graph = graphs[site]
    asked = graph.train | graph.test
    with torch.no_grad():
        logits = federation.network(view.model, graph).logits[asked]
    loss = torch.nn.functional.cross_entropy(logits, graph.y[asked], reduction="none")
    return auc(-loss, graph.train[asked])


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


ATTACKS: Mapping[str, tuple[str, Attack]] = {
    "word_occurs": ("A word occurs in a training node of this site, AUC", word_occurs),
    "word_counts": ("Word counts of this site, Spearman", word_counts),
    "label_histogram": ("Label histogram of this site, Pearson", label_histogram),
    "membership": ("A node of this site was in training, by its loss, AUC", membership),
    "whose_node": ("Whose node is it, by its words, AUC", whose_node),
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
    federations = {seed: Federation(gcn, Pace(), seed, epochs) for seed in seeds}
    start = {seed: each.start for seed, each in federations.items()}
    models = train_cohort(graphs, gcn, start, recipe=federations[seeds[0]].recipe)
    scores: dict[tuple[str, str], list[float]] = {}
    excluded = []
    for seed, federation in federations.items():
        frames = [
            steps.share(model, graph, federation)[1]
            for model, graph in zip(models[seed], graphs, strict=True)
        ]
        uploads = [wire.decode(frame).message for frame in frames]
        excluded.append(ruled_out(uploads, graphs, federation.start))
        for seen, view_of in VIEWS.items():
            for site in range(clients):
                view = view_of(uploads, site, federation)
                for name, (_, attack) in ATTACKS.items():
                    score = attack(view, graphs, site, federation)
                    if score is not None:
                        scores.setdefault((name, seen), []).append(score)
    leaks = [
        Leak(dataset.name, name, seen, round(statistics.fmean(values), 4))
        for (name, seen), values in scores.items()
    ]
    return leaks, statistics.fmean(excluded)


def page(leaks: Sequence[Leak], excluded: Mapping[str, float], seeds: int) -> str:
    """The table in words."""
    by = {(leak.data, leak.attack, leak.view): leak.score for leak in leaks}
    places = list(dict.fromkeys(leak.data for leak in leaks))
    heads = [f"{seen}, {data}" for seen in VIEWS for data in places]
    rows = [
        f"| {title} | "
        + " | ".join(f"{by[data, name, seen]:.2f}" for seen in VIEWS for data in places)
        + " |"
        for name, (title, _) in ATTACKS.items()
    ]
    zero = ", ".join(f"{100 * share:.0f} % on {data}" for data, share in excluded.items())
    table = "\n".join([f"| Attack | {' | '.join(heads)} |", "|---|" + "---|" * len(heads), *rows])
    return f"""# What the server learns

Five attacks by a server that follows the protocol and is curious: on a site's upload as PACE sends
it, and, for comparison, on the sums alone (Σ Δ C, Σ C and the sum of biases over all sites), which
is what the consensus needs and all that a server would have under secure aggregation. {CLIENTS} sites
(Louvain), mean over sites and {seeds} seeds. An AUC of 0.5 and a correlation of 0 mean that nothing
was learnt. Made by `make privacy`.

{table}

Words are ranked by the first layer's moments. Classes are ranked by what the model that the upload
stands for says, on average, of {MADE_UP} nodes that the attacker makes up with words drawn by the
moments. Membership compares the loss of a site's training nodes with that of its test nodes under
this model; the attacker holds the nodes, their edges and labels, and asks only whether they were
trained on. *Whose node* scores the words of a node by a site's moments, against the training nodes
of other sites.

- Rank 6 protects nothing here: the attacks use the carrier, not the model that was trained.
- A moment that is exactly zero is certain knowledge. Of other sites' training nodes it rules
  out {zero}.
- These are simple attacks, and lower bounds: others may learn more. No formal privacy is promised,
  see the [threat model](threat-model.md).
- With the sums alone every site looks the same: what remains is what all sites have in common.
"""


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
