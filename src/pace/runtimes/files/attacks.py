"""Attacks on a site's own upload: the site knows whom it trained on, so it can tell how well they do.

The attacker holds what was sent and, to ask whether a node was trained on, that node with its edges and
label. These are lower bounds: others may learn more.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pace import task
from pace.graph import Graph
from pace.protocol import Federation, Message, Messages, Reading, steps

FOLDS = 5
FEWEST = 2 * FOLDS  # members and other nodes, below which no AUC is told
ASKED = 2000  # members and other nodes that are asked about, at most: memory for as many rows
ABSENT = 1e-9  # of a mean moment: no training node has such a column
RULED_OUT = 1e3  # beyond any log of a ratio
RIDGE = 1e-2  # of the combined attack
MADE_UP, WORDS, SEEN = 200, 12, 0.3  # nodes that the attacker makes up, words of each, their values
FEW = 5  # training nodes: what is told about fewer is told about persons
WHOLE = 0.999  # cosine with a node's row from which on its features were read
PARTIES = 50  # of a sum, at most: more change little


@dataclass(frozen=True)
class Risk:
    """What attacks learn; None where there is none. Guessing gives an AUC of 0.5, a correlation of 0."""

    membership: dict[str, float] = field(default_factory=dict)  # AUC by attack, see `membership`
    labels: float | None = None  # Pearson's correlation of the shares of classes with the true ones
    words: float | None = None  # AUC of telling which features occur in a training node
    absent: int = 0  # features that it says occur at no training node
    rare: int = 0  # features of one to four training nodes that it shows to occur
    read_whole: int = 0  # training nodes whose features are a row of it

    @property
    def auc(self) -> float | None:
        """Of the best attack on membership."""
        return max(self.membership.values(), default=None)


def attack(reading: Reading, graph: Graph, federation: Federation) -> Risk:
    """All attacks on what was read; `graph` says how well they did."""
    members, others = _asked(graph.train), _asked(graph.test if graph.test.any() else graph.val)
    risks: dict[str, Any] = {}
    if min(len(members), len(others)) >= FEWEST:
        risks["membership"] = membership(reading, graph, federation, members, others)
    if (shares := told_classes(reading, federation)) is not None:
        pair = torch.stack([shares, graph.training_counts(len(shares)).double()])
        if bool((pair.std(1) > 0).all()):
            risks["labels"] = float(torch.corrcoef(pair)[0, 1])
    if (words := reading.words) is not None:
        occurring, absent = (graph.x[graph.train] != 0).sum(0), words <= ABSENT * words.mean()
        risks["words"] = task.roc_auc(words.double(), occurring > 0)
        risks["absent"] = int(absent.sum())
        risks["rare"] = int((~absent & (occurring > 0) & (occurring < FEW)).sum())
    rows = _rows(reading, federation)
    if len(rows) and len(members):
        x = normalize(graph.x[members].double())
        near = (x @ normalize(rows.double()).T).abs().amax(1)
        risks["read_whole"] = int((near > WHOLE).sum())
    return Risk(**risks)


def membership(
    reading: Reading, graph: Graph, federation: Federation, members: Tensor, others: Tensor
) -> dict[str, float]:
    """How well each score, and all of them combined, tell training nodes from others."""
    nodes = torch.cat([members, others])
    trained = torch.arange(len(nodes)) < len(members)
    table: dict[str, Tensor] = {}  # of each attack its column, and more that are combined with it
    with torch.no_grad():
        if (model := reading.model) is not None:
            seen = federation.network(model.params, graph) if model.predict is None else None
            logits = model.predict(model.params, graph) if model.predict else seen.logits  # type: ignore[union-attr]
            table["loss"] = -task.losses(logits[nodes], graph.y[nodes]).double()[:, None]
            first = next(iter(reading.moments), None)  # hidden columns are used by every node
            if seen is not None and first is not None:
                table["moments"] = within_moments(seen.inputs[first][nodes], reading.moments[first])
        if reading.leverage is not None:
            table["row"] = reading.leverage(graph)[nodes].double()[:, None]
        if reading.class_words is not None:  # |h_j| ≤ Σ_v |h_vj| over the nodes of its class
            summed = reading.class_words.T[graph.y[nodes]].clamp_min(0)
            table["features"] = within_moments(normalize(graph.x[nodes]).abs().sqrt(), summed)
    aucs = {name: task.roc_auc(columns[:, 0], trained) for name, columns in table.items()}
    known = {name: auc for name, auc in aucs.items() if auc is not None}
    if len(known) > 1:
        known["combined"] = held_out_auc(torch.cat(list(table.values()), 1), trained)
    return known


def within_moments(rows: Tensor, moment: Tensor) -> Tensor:
    """The two lowest log(m_j / s_j²): a training node's square is in the moment, so none is small.

    n m_j = Σ s_j² over training nodes, so that m_j / s_j² ≥ 1 / n at each of them, up to a common scale.
    One column that no training node uses rules a node out. `moment` is (columns,) or one for each row.
    Returns (rows, 2).
    """
    squares = rows.double().square()
    squares = squares.flatten(1, -2).amax(1) if squares.ndim > 2 else squares
    logs = torch.log(moment.double()) - torch.log(squares)
    ratios = logs.masked_fill(moment <= ABSENT * moment.mean(), -RULED_OUT)  # all alike
    ratios = ratios.masked_fill(squares == 0, RULED_OUT)
    return ratios.topk(min(2, ratios.shape[1]), largest=False, sorted=True).values


def held_out_auc(scores: Tensor, positive: Tensor) -> float:
    """Mean AUC on held-out nodes of a linear discriminant of normal scores and their products."""
    from scipy.stats import rankdata

    ranks = torch.from_numpy(rankdata(scores.numpy(), axis=0))
    normal = torch.special.ndtri((ranks - 0.5) / len(ranks))
    x = torch.cat([normal, *(normal * column[:, None] for column in normal.T)], 1)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    order = order[positive[order].sort(stable=True).indices]  # both kinds in every fold
    aucs = []
    for first in range(FOLDS):
        fold = torch.zeros_like(positive)
        fold[order[first::FOLDS]] = True
        mean = x[~fold].mean(0)
        fitted, y = x[~fold] - mean, positive[~fold].double() - positive[~fold].double().mean()
        products = fitted.T @ fitted + RIDGE * len(fitted) * torch.eye(x.shape[1]).double()
        weights = torch.linalg.solve(products, fitted.T @ y)
        aucs.append(task.roc_auc((x[fold] - mean) @ weights, positive[fold]))
    return sum(auc for auc in aucs if auc is not None) / FOLDS


def told_classes(reading: Reading, federation: Federation) -> Tensor | None:
    """The classes of training nodes: as sent, or as the model says of nodes made up from the words."""
    if reading.classes is not None:
        return reading.classes.double().clamp_min(0)
    words, model = reading.words, reading.model
    if words is None or model is None or not words.sum() > 0:
        return None
    random = torch.Generator().manual_seed(0)
    drawn = torch.multinomial(words.double(), MADE_UP * WORDS, replacement=True, generator=random)
    x = torch.zeros(MADE_UP, len(words)).scatter_(1, drawn.view(MADE_UP, WORDS), SEEN)
    graph = Graph.build(x, torch.zeros(2, 0).long(), torch.zeros(MADE_UP).long())
    with torch.no_grad():
        logits = federation.network(model.params, graph).logits
    return logits.double().softmax(1).mean(0)


def _rows(reading: Reading, federation: Federation) -> Tensor:
    """All that was sent as rows over features: of each class, or of each unit's update."""
    if reading.class_words is not None:
        return reading.class_words.T
    features, start, model = federation.model.features, federation.start, reading.model
    updates = [] if model is None else [model.params[name] - start[name] for name in start]
    wide = (value for value in updates if value.ndim == 2 and value.shape[1] == features)
    return torch.cat([torch.zeros(0, features), *wide])


def sums_with(
    own: Message, graph: Graph, federation: Federation, parties: int, device: str = "cpu"
) -> Reading | None:
    """What the sums over all sites would tell, as far as one site can know it.

    In place of the others, a model trained on this site's own validation nodes, as often as there are
    others. None where a method needs more than sums or there are no validation nodes.
    """
    if federation.method.needs or parties < 2 or not graph.val.any():
        return None
    other = replace(graph, train=graph.val, val=torch.zeros_like(graph.val))
    message = steps.check_upload(steps.fit(other, federation, device=device)[1], federation)
    others = [message] * (min(parties, PARTIES) - 1)
    return federation.method.explain(Messages([own, *others]), federation).reading()


def _asked(mask: Tensor) -> Tensor:
    """The nodes of a mask, or as many of them as there is memory for."""
    nodes = mask.nonzero().flatten()
    order = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))
    return nodes[order[:ASKED].sort().values]
