"""Both closed forms on graphs, models and sites of every kind: the plain formula, and never a crash."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot

from pace.datasets import Dataset
from pace.datasets.partition import Random, client_graphs
from pace.graph import Graph
from pace.merging.ridge import compressed, expanded
from pace.methods import PaceRidge, RidgeSums
from pace.methods.beyond.ridge import ROWS, SMALLEST_CLASS, STRENGTHS, Regressed
from pace.models import GAT, GCN, SAGE, Model, from_torch
from pace.protocol import Adoption, steps
from pace.protocol.federation import Federation
from pace.protocol.uploads import Messages
from pace.task import nll
from tests.graphs import CLASSES, FEATURES, clients
from tests.models.test_edges import weighted

FORMS = pytest.mark.parametrize("form", [PaceRidge, RidgeSums])


# The plain formula: dense matrices, loops and an inverse.


def dense_rows(graph: Graph, hop: int) -> Tensor:
    """unit((D⁻¹ᐟ² (A + I) D⁻¹ᐟ²)^hop √x), with A the weights and D the row sums of A + I."""
    adjacency = torch.eye(graph.nodes, dtype=torch.float64)
    weights = torch.ones(graph.edges.shape[1]) if graph.weights is None else graph.weights
    for (source, target), weight in zip(graph.edges.T.tolist(), weights.tolist(), strict=True):
        adjacency[target, source] += weight
    scale = adjacency.sum(1).rsqrt()
    along = scale[:, None] * adjacency * scale
    rows = graph.x.double().sqrt()
    for _ in range(hop):
        rows = along @ rows
    return normalize(rows, dim=1)


def by_the_formula(graphs: list[Graph], hop: int, strength: float) -> Tensor:
    """(Σ h hᵀ + λI)⁻¹ Σ h yᵀ over all training nodes of all graphs."""
    rows = torch.cat([dense_rows(graph, hop)[graph.train] for graph in graphs])
    labels = torch.cat([one_hot(graph.y[graph.train], CLASSES) for graph in graphs]).double()
    gram = rows.T @ rows + strength * torch.eye(rows.shape[1], dtype=torch.float64)
    answer: Tensor = torch.linalg.inv(gram) @ rows.T @ labels
    return answer


@pytest.mark.parametrize("directed", [False, True])
def test_on_weighted_edges_the_answer_is_the_plain_formulas(directed: bool) -> None:
    graphs = [weighted(directed), *clients(2, seed=4)]  # one site with weights, two without
    every_row = PaceRidge(rows=90, smallest_class=1, nodes_per_row=1, numbers="float32")
    for method in (RidgeSums(), every_row):
        whole = Federation(GCN((FEATURES, 8, CLASSES)), method)
        uploads = [method.share(whole.start, graph, whole) for graph in graphs]
        returned = next(iter(method.merge(Messages(uploads), whole)))
        for hop in method.hops:
            expected = torch.stack([by_the_formula(graphs, hop, each) for each in STRENGTHS])
            sent = expanded(*compressed(expected, ROWS), len(STRENGTHS))
            found = expanded(
                returned[f"hop{hop}/basis"], returned[f"hop{hop}/mixing"], len(STRENGTHS)
            )
            for answer, oracle in zip(found, sent, strict=True):
                torch.testing.assert_close(answer, oracle, atol=1e-4, rtol=1e-3)
    unweighted = replace(graphs[0], weights=None)
    assert not torch.allclose(
        by_the_formula([unweighted], 2, 1.0), by_the_formula(graphs[:1], 2, 1.0), atol=1e-3
    )


# Any model as Local.


class Own(nn.Module):
    """A network of one's own that reads no edge."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(FEATURES, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        logits: Tensor = self.out(self.into(x).relu())
        return logits


MODELS: dict[str, Callable[[], Model]] = {
    "sage": lambda: SAGE((FEATURES, 8, CLASSES)),
    "gat": lambda: GAT((FEATURES, 8, CLASSES)),
    "from_torch": lambda: from_torch(Own(), FEATURES, CLASSES),
}


@FORMS
@pytest.mark.parametrize("kind", MODELS)
def test_whatever_local_is_the_regressions_are_the_same(kind: str, form: type[Regressed]) -> None:
    """They read features, edges and labels, so what a client trained does not enter them."""
    graphs = clients(3)
    answers = []
    for model in (MODELS[kind](), GCN((FEATURES, 8, CLASSES))):
        whole = Federation(model, form(), epochs=2)
        adopted = round_of(graphs, whole)
        answers.append(adopted[0].externals)
        for graph, found in zip(graphs, adopted, strict=True):
            labels = graph.y[graph.val]
            assert nll(found.logits[graph.val], labels) <= nll(found.local[graph.val], labels)
    for one, other in zip(*answers, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def round_of(graphs: list[Graph], whole: Federation) -> list[Adoption]:
    fitted = [steps.fit(graph, whole) for graph in graphs]
    returns = steps.merge([upload for _, upload in fitted], whole)
    return [
        steps.adopt(graph, kept, returned, whole)
        for graph, (kept, _), returned in zip(graphs, fitted, returns, strict=True)
    ]


# Neighbours that differ.


@FORMS
def test_where_neighbours_differ_hop_0_carries_what_others_know(form: type[Regressed]) -> None:
    """Every edge joins two classes, and a class is told by a node's own words."""
    graphs = [heterophilous(seed) for seed in range(3)]
    found = {}
    for hops in ((0,), (2,), (0, 2)):
        whole = Federation(GCN((FEATURES, 8, CLASSES)), form(hops=hops), epochs=20)
        found[hops] = gained(graphs, round_of(graphs, whole))
    assert found[0,] > found[2,] + 0.05
    assert found[0, 2] > found[2,] + 0.05
    assert found[0, 2] > 0.05


def heterophilous(seed: int, nodes: int = 160) -> Graph:
    random = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (nodes,), generator=random)
    x = (torch.rand(nodes, FEATURES, generator=random) < 0.05).float()
    topics = FEATURES // CLASSES
    said = y[:, None] * topics + torch.randint(topics, (nodes, 3), generator=random)
    x.scatter_(1, said, 1.0)
    edges = torch.randint(nodes, (2, 6 * nodes), generator=random)
    edges = edges[:, y[edges[0]] != y[edges[1]]]
    whole = Graph.build(x, edges, y)
    return client_graphs(Dataset("whole", whole, CLASSES), [range(nodes)], Random(seed))[0]


def gained(graphs: list[Graph], adopted: list[Adoption]) -> float:
    """Test accuracy above Local, over all clients' nodes."""
    hits, nodes = 0, 0
    for graph, found in zip(graphs, adopted, strict=True):
        after, before = (
            (logits.argmax(1) == graph.y)[graph.test] for logits in (found.logits, found.local)
        )
        hits += int(after.sum()) - int(before.sum())
        nodes += len(after)
    return hits / nodes


# Sites that lack something.


def only(mask: Tensor, count: int) -> Tensor:
    """The first so many nodes of a mask."""
    kept = torch.zeros_like(mask)
    kept[mask.nonzero().flatten()[:count]] = True
    return kept


def without_class(graph: Graph) -> Graph:
    """A class that no training node of this site has."""
    return replace(graph, train=graph.train & (graph.y != graph.y[graph.train].mode().values))


def isolated(graph: Graph) -> Graph:
    return replace(graph, edges=torch.zeros((2, 0), dtype=torch.int64))


def dense_features(graph: Graph) -> Graph:
    random = torch.Generator().manual_seed(graph.nodes)
    return replace(graph, x=graph.x + torch.randn(graph.x.shape, generator=random))


LACKING: dict[str, Callable[[Graph], Graph]] = {
    "a class absent": without_class,
    "one training node": lambda graph: replace(graph, train=only(graph.train, 1)),
    "no training node": lambda graph: replace(graph, train=only(graph.train, 0)),
    "features all zero": lambda graph: replace(graph, x=torch.zeros_like(graph.x)),
    "one validation node": lambda graph: replace(graph, val=only(graph.val, 1)),
    "no validation node": lambda graph: replace(graph, val=only(graph.val, 0)),
    "no edge": isolated,
    "dense features of both signs": dense_features,
    "features of a million": lambda graph: replace(graph, x=1e6 * graph.x),
}


@FORMS
@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("lacking", LACKING)
def test_a_site_that_lacks_something_is_served_and_does_not_fall_below_local(
    lacking: str, everywhere: bool, form: type[Regressed]
) -> None:
    """At one site or at all; by more than twice the standard error of as many test nodes."""
    graphs = clients(4)
    changed = [LACKING[lacking](graph) for graph in graphs]
    graphs = changed if everywhere else [changed[0], *graphs[1:]]
    whole = Federation(GCN((FEATURES, 8, CLASSES)), form(), epochs=10)
    adopted = round_of(graphs, whole)
    for graph, found in zip(graphs, adopted, strict=True):
        assert found.logits.isfinite().all()
        labels = graph.y[graph.val]
        if len(labels):
            assert nll(found.logits[graph.val], labels) <= nll(found.local[graph.val], labels)
        else:
            assert found.logits is found.local
    nodes = sum(int(graph.test.sum()) for graph in graphs)
    assert gained(graphs, adopted) >= -2 * (0.25 / nodes) ** 0.5


@FORMS
@pytest.mark.parametrize(("features", "classes"), [(8200, 3), (30, 40)])
def test_many_features_and_many_classes_are_served(
    features: int, classes: int, form: type[Regressed]
) -> None:
    graphs = clients(3, nodes=120)
    random = torch.Generator().manual_seed(1)
    where = torch.randperm(max(features, FEATURES), generator=random)[:FEATURES] % features
    wide = [
        replace(
            graph,
            x=torch.zeros(graph.nodes, features).index_add_(1, where, graph.x),
            y=(graph.y + CLASSES * torch.arange(graph.nodes)) % classes,
        )
        for graph in graphs
    ]
    whole = Federation(GCN((features, 8, classes)), form(), epochs=3)
    for graph, found in zip(wide, round_of(wide, whole), strict=True):
        labels = graph.y[graph.val]
        assert nll(found.logits[graph.val], labels) <= nll(found.local[graph.val], labels)


@pytest.mark.parametrize("hop", PaceRidge().hops)
def test_no_class_below_the_minimum_is_sent_whatever_the_site(hop: int) -> None:
    """Column c of the labels is zero for every class with one to four training nodes."""
    method = PaceRidge()
    whole = Federation(GCN((FEATURES, 8, CLASSES)), method)
    small = 0
    for seed in range(6):
        graph = clients(1, nodes=60, seed=seed)[0]
        counts = torch.bincount(graph.y[graph.train], minlength=CLASSES)
        sent = method.share(whole.start, graph, whole)[f"hop{hop}/labels"].any(0)
        assert sent.tolist() == (counts >= SMALLEST_CLASS).tolist()
        small += int(((counts > 0) & (counts < SMALLEST_CLASS)).sum())
    assert small > 0
