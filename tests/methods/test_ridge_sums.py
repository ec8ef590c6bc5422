"""pace-ridge-sums: what is added up, and that it is the ridge regression of all nodes pooled."""

import pytest
import torch
from torch.nn.functional import one_hot

from pace.datasets import load
from pace.datasets.partition import divide
from pace.errors import WeightError
from pace.graph import Graph
from pace.jobs.disclosure import disclosure
from pace.merging.ridge import SKETCH, compressed, expanded, solve_rows
from pace.methods import PaceRidge, RidgeSums
from pace.methods.beyond import ridge
from pace.methods.beyond.ridge import ROWS
from pace.models.networks import GCN
from pace.models.unit_rows import unit_rows
from pace.protocol import layouts
from pace.protocol.federation import Federation
from pace.protocol.uploads import Messages
from tests.graphs import clients, federation


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return divide(load("synthetic:nodes=900,features=60"), "louvain", 6)


def agreed(graphs: list[Graph], method: RidgeSums | PaceRidge | None = None) -> Federation:
    classes = 1 + max(int(graph.y.max()) for graph in graphs)
    gcn = GCN((graphs[0].features, 8, classes))
    return Federation(gcn, RidgeSums() if method is None else method, epochs=3)


def merged(graphs: list[Graph], whole: Federation) -> dict[str, torch.Tensor]:
    uploads = [whole.method.share(whole.start, graph, whole) for graph in graphs]
    return dict(next(iter(whole.method.merge(Messages(uploads), whole))))


def pooled(graphs: list[Graph], method: RidgeSums, classes: int, hop: int) -> torch.Tensor:
    rows = torch.cat([unit_rows(graph, hop)[graph.train] for graph in graphs]).double()
    labels = torch.cat([one_hot(graph.y[graph.train], classes) for graph in graphs]).double()
    return solve_rows(rows, labels, method.strengths)


def test_the_answer_is_that_of_all_nodes_pooled_and_everybodys(graphs: list[Graph]) -> None:
    whole, method = agreed(graphs), RidgeSums()
    returned = merged(graphs, whole)
    for hop in method.hops:
        exact = pooled(graphs, method, whole.model.classes, hop)
        found = expanded(returned[f"hop{hop}/basis"], returned[f"hop{hop}/mixing"], 3)
        for answer, expected in zip(found, expanded(*compressed(exact, ROWS), 3), strict=True):
            torch.testing.assert_close(answer, expected, atol=1e-4, rtol=1e-3)


def test_however_sites_are_joined_the_answer_stays(graphs: list[Graph]) -> None:
    """Two sites' sums added are what one site with both graphs, unconnected, would have sent."""
    one, two = graphs[:2]
    both = Graph(
        torch.cat([one.x, two.x]),
        torch.cat([one.edges, two.edges + one.nodes], 1),
        torch.cat([one.y, two.y]),
        torch.cat([one.train, two.train]),
        torch.cat([one.val, two.val]),
        torch.cat([one.test, two.test]),
    )
    whole = agreed(graphs)
    apart, joined = merged(graphs, whole), merged([both, *graphs[2:]], whole)
    for hop in (0, 2):
        one_answer, other = (
            m[f"hop{hop}/basis"].T @ m[f"hop{hop}/mixing"] for m in (apart, joined)
        )
        torch.testing.assert_close(one_answer, other, atol=1e-4, rtol=1e-3)


def test_with_many_features_a_sketch_is_sent_and_is_exact_for_few_nodes(
    graphs: list[Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ridge, "EXACT", 10)
    whole, method = agreed(graphs), RidgeSums()
    message = method.share(whole.start, graphs[0], whole)
    assert message["hop2/sketch"].shape == (60, SKETCH)
    assert float(message["hop2/nodes"]) == pytest.approx(int(graphs[0].train.sum()), rel=1e-5)
    returned = merged(graphs, whole)
    for hop in method.hops:  # 60 features: nothing lies beyond the sketch
        exact = pooled(graphs, method, whole.model.classes, hop)
        found = torch.stack(
            expanded(returned[f"hop{hop}/basis"], returned[f"hop{hop}/mixing"], 3)
        ).double()
        centred = exact - exact.mean(2, keepdim=True)
        assert float((found - centred).norm() / centred.norm()) < 0.02


def test_with_many_classes_the_return_tells_all_of_them_apart() -> None:
    """Of 30 classes, each known by a word of its own, none is lost; twelve directions keep 13.

    Those are the largest. No two are equally large: among equals, LAPACK chooses.
    """
    classes = 30
    y = torch.arange(classes).repeat_interleave(torch.arange(4, 4 + classes))
    x = torch.eye(classes)[y] + 0.05
    edges = torch.zeros((2, 0), dtype=torch.int64)
    train = torch.ones(len(y), dtype=torch.bool)
    graph = Graph(x, edges, y, train, ~train, ~train)
    right = {}
    for method in (RidgeSums(hops=(0,)), PaceRidge(hops=(0,), rows=classes, nodes_per_row=1)):
        whole = Federation(GCN((classes, 4, classes)), method)
        upload = method.share(whole.start, graph, whole)
        (returned,) = method.merge(Messages([upload]), whole)
        external = method.adopt(whole.start, returned, graph, whole)[0]
        assert external.predict is not None
        logits = external.predict(external.params, graph)
        right[type(method)] = set(y[logits.argmax(1) == y].tolist())
    assert right[RidgeSums] == set(range(classes))
    assert right[PaceRidge] == set(range(classes - 13, classes))


def test_messages_have_the_agreed_size_and_are_exact(graphs: list[Graph]) -> None:
    for features, upload in ((1433, 8 * 1433 * (64 + 7)), (500, 8 * (500 * 501 // 2 + 500 * 7))):
        whole = Federation(GCN((features, 64, 7)), RidgeSums())
        assert whole.numbers == "float32"
        assert 0 <= layouts.upload_layout(whole).size - upload < 200


def test_what_the_sums_and_the_rows_tell_is_said(graphs: list[Graph]) -> None:
    whole = agreed(graphs)
    graph = graphs[0]
    lonely = graph.train & (graph.y != graph.y[graph.train][0])
    lonely[graph.train.nonzero()[0]] = True  # the only training node of its class
    site = Graph(graph.x, graph.edges, graph.y, lonely, graph.val, graph.test)
    message = whole.method.share(whole.start, site, whole)
    first, told = disclosure(message, whole).sentences
    assert "no edge" in first
    assert "A class with one training node sends that node's features" in told
    counts = torch.bincount(site.y[site.train], minlength=whole.model.classes)
    assert counts[graph.y[graph.train][0]] == 1
    assert f"here {int((counts == 1).sum())} of {whole.model.classes}" in told
    factored = agreed(graphs, PaceRidge())
    message = factored.method.share(factored.start, graph, factored)
    found = disclosure(message, factored)
    assert "fewer than 5 training nodes are not in it" in found.sentences[1]
    assert all("of the method" not in item.words for item in found.items)


@pytest.mark.fault(48)
@pytest.mark.parametrize("few", [True, False], ids=["gram", "sketch"])
def test_sums_that_no_rows_of_length_one_add_up_to_are_refused(
    few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Honest sums are never near the bound's wrong side; a label of weight ten is past it."""
    if not few:
        monkeypatch.setattr(ridge, "EXACT", 8)
    method = RidgeSums()
    agreed, graphs = federation(method, epochs=1), clients(3)
    for graph in graphs:
        message = dict(method.share(agreed.start, graph, agreed))
        method.check(message, agreed)
        assert any(name.endswith("gram" if few else "sketch") for name in message)
        name = "hop0/class sums"
        with pytest.raises(WeightError, match=r"more than its rows of length one can add up to"):
            method.check(message | {name: 30 * message[name]}, agreed)
    if few:
        message["hop2/gram"] = -message["hop2/gram"]
        with pytest.raises(WeightError, match="hop2"):
            method.check(message, agreed)
