"""What a server can compute about a site from what it was sent, for each method that is attacked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from pace.graph import Graph
from pace.merging import batches, consensus, dense, nystrom
from pace.methods import SCALE, Pace, PaceRidge, Regressed, RidgeSums, full, omega_of, read
from pace.models import unit_rows
from pace.params import Params, add
from pace.protocol import Federation, Message, Messages, Method

MADE_UP, WORDS = 200, 12  # nodes that the attacker makes up, and words of each
SEEN = 0.3  # a word after it was averaged over a neighbourhood
SMALL = 0.1  # λ of the leverage


Model = Callable[[Graph], Tensor]  # a row or a number for each node


@dataclass(frozen=True, eq=False)
class View:
    """What is known about one site. Where a method tells nothing of a kind, None."""

    words: Tensor | None = None  # (features,): the larger, the more of this word
    classes: Tensor | None = None  # (classes,): the larger, the more nodes of this class
    logits: Model | None = None  # a model to compute a node's loss with
    class_words: Tensor | None = None  # (features, classes): words of each class
    leverage: Model | None = None  # how much of a node's row lies in those sent


@dataclass(frozen=True)
class Seen:
    """One method, and what of its uploads the server has."""

    method: Method
    view: Callable[[Sequence[Message], int, Federation], View]


def of_upload(uploads: Sequence[Message], site: int, federation: Federation) -> View:
    """The server has the site's own upload of PACE."""
    carrier, moments = read(uploads[site], federation.start)
    return _paces(dense(carrier), next(iter(moments.values())), federation)


def of_sums(uploads: Sequence[Message], site: int, federation: Federation) -> View:
    """The server has Σ Δ C, Σ C and the sum of biases: the same view of every site."""
    pairs = [read(batch, federation.start) for batch in batches(uploads)]
    first = [next(iter(moments.values())).sum(0) for _, moments in pairs]
    shared = {name: value.float() for name, value in consensus(pairs).items()}
    return _paces(shared, torch.stack(first).sum(0), federation)


def _paces(update: Params, moment: Tensor, federation: Federation) -> View:
    """Words by the first layer's moments; classes by what the model says of nodes made up from these."""
    model = add(federation.start, update)
    return View(
        moment,
        mean_prediction(model, moment, federation),
        lambda graph: federation.network(model, graph).logits,
    )


def mean_prediction(model: Params, moment: Tensor, federation: Federation) -> Tensor:
    """The mean class probabilities of nodes without neighbours whose words are drawn by the moments."""
    random = torch.Generator().manual_seed(0)
    drawn = torch.multinomial(moment, MADE_UP * WORDS, replacement=True, generator=random)
    x = torch.zeros(MADE_UP, len(moment)).scatter_(1, drawn.view(MADE_UP, WORDS), SEEN)
    nobody = torch.zeros(MADE_UP, dtype=torch.bool)
    masks = (nobody, nobody, nobody)
    alone = torch.zeros(2, 0, dtype=torch.int64)
    graph = Graph(x, alone, torch.zeros(MADE_UP, dtype=torch.int64), *masks)
    with torch.no_grad():
        return federation.network(model, graph).logits.softmax(1).mean(0)


def of_rows(uploads: Sequence[Message], site: int, federation: Federation) -> View:
    """The server has the site's rows Z and labels M: B ≈ ZᵀM by class, and MᵀM ≈ YᵀY counts nodes."""
    upload = uploads[site]
    labels = {hop: upload[f"hop{hop}/labels"] for hop in _hops(federation)}
    rows = {hop: upload[f"hop{hop}/rows"] for hop in labels}
    sums = {hop: rows[hop].T @ labels[hop] for hop in labels}
    counts = labels[0].square().sum(0)
    (answer,) = federation.method.merge(Messages([upload]), federation)
    return _regressions(rows, sums, counts, partial(_regressed, answer, federation))


def of_own_sums(uploads: Sequence[Message], site: int, federation: Federation) -> View:
    """The server has the site's own B, and G or a sketch of it."""
    return _of_total([uploads[site]], federation)


def of_all_sums(uploads: Sequence[Message], site: int, federation: Federation) -> View:
    """The server has these sums over all sites, as in a sealed job: the same view of every site."""
    return _of_total(uploads, federation)


def _of_total(uploads: Sequence[Message], federation: Federation) -> View:
    method = federation.method
    assert isinstance(method, RidgeSums)
    total = method.total(Messages(uploads), federation)
    sums = {hop: total[f"hop{hop}/class sums"].float() for hop in method.hops}
    factors = {hop: _factor(total, hop, federation).float() for hop in method.hops}
    answer = method.answer(total, federation)
    counts = sums[0].sum(0)  # rows have length one: a class with more nodes has the larger sum
    return _regressions(factors, sums, counts, partial(_regressed, answer, federation))


def _factor(total: Message, hop: int, federation: Federation) -> Tensor:
    """F with FᵀF = G, or what the sketch knows of it."""
    omega = omega_of(f"hop{hop}", federation)
    if omega is None:
        gram = full(total[f"hop{hop}/gram"], federation.model.features)
        values, vectors = torch.linalg.eigh(gram)
        factor: Tensor = values.clamp_min(0).sqrt()[:, None] * vectors.T
        return factor
    return nystrom(total[f"hop{hop}/sketch"], omega)


def _regressions(
    rows: Mapping[int, Tensor],
    sums: Mapping[int, Tensor],
    counts: Tensor,
    logits: Model,
) -> View:
    """Words and classes by the class sums at hop 0, which reads no neighbour."""
    words = sums[0].abs().sum(1)
    return View(words, counts, logits, sums[0], lambda graph: _leverage(rows, graph))


def _leverage(rows: Mapping[int, Tensor], graph: Graph) -> Tensor:
    """Σ over hops of hᵀ Zᵀ (ZZᵀ + λI)⁻¹ Z h: near one where h lies in the span of what was sent."""
    total = torch.zeros(graph.nodes)
    for hop, each in rows.items():
        seen = unit_rows(graph, hop) @ each.T
        damped = each @ each.T + SMALL * torch.eye(len(each))
        total += (seen * torch.linalg.solve(damped, seen.T).T).sum(1)
    return total


def _regressed(answer: Message, federation: Federation, graph: Graph) -> Tensor:
    """Logits of the regressions that were solved from this site's upload, or from all, added up."""
    method = federation.method
    assert isinstance(method, Regressed)
    total = torch.zeros(graph.nodes, federation.model.classes)
    for hop in method.hops:
        both = answer[f"hop{hop}/basis"].T @ answer[f"hop{hop}/mixing"]
        first = both.chunk(len(method.strengths), 1)[0]  # the smallest λ, which fits closest
        total += SCALE * (unit_rows(graph, hop) @ first)
    return total


def _hops(federation: Federation) -> tuple[int, ...]:
    assert isinstance(federation.method, Regressed)
    return federation.method.hops


VIEWS: Mapping[str, Seen] = {
    "PACE: an upload": Seen(Pace(), of_upload),
    "PACE: the sums": Seen(Pace(), of_sums),
    "pace-ridge: an upload": Seen(PaceRidge(), of_rows),
    "pace-ridge-sums: an upload": Seen(RidgeSums(), of_own_sums),
    "pace-ridge-sums: the sums": Seen(RidgeSums(), of_all_sums),
}
