"""pace-ridge: what it sends, what it leaves out, and what its receivers make of it."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import normalize, one_hot

from pace.datasets import load
from pace.datasets.partition import divide
from pace.errors import NumberError, SettingError
from pace.graph import Graph
from pace.merging.ridge import compressed, expanded, solve_gram, solve_rows
from pace.methods import Pace, PaceRidge, make
from pace.methods.beyond import ridge
from pace.methods.beyond.ridge import OWN, ROWS, Regressed
from pace.models import MODELS
from pace.models.networks import GCN
from pace.models.unit_rows import unit_rows
from pace.protocol import layouts, steps, wire
from pace.protocol.federation import Federation
from pace.protocol.uploads import Messages
from pace.task import nll

# Features and classes of Cora, CiteSeer, PubMed, CS, Computers and ogbn-arxiv.
SHAPES = [(1433, 7), (3703, 6), (500, 3), (6805, 15), (767, 10), (128, 40)]


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return divide(load("synthetic:nodes=900,features=60"), "louvain", 8)


def agreed(graphs: list[Graph], method: Regressed | None = None, epochs: int = 15) -> Federation:
    classes = 1 + max(int(graph.y.max()) for graph in graphs)
    gcn = GCN((graphs[0].features, 16, classes))
    return Federation(gcn, PaceRidge() if method is None else method, epochs=epochs)


@pytest.mark.parametrize(("features", "classes"), SHAPES)
def test_each_direction_costs_at_most_what_pace_does(features: int, classes: int) -> None:
    gcn = GCN((features, 64, classes))
    ridge, pace = Federation(gcn, PaceRidge()), Federation(gcn, Pace())
    for layout in (layouts.upload_layout, layouts.return_layout):
        assert layout(ridge).size <= layout(pace).size


def test_with_every_row_sent_it_is_the_ridge_regression_of_all_nodes_pooled(
    graphs: list[Graph],
) -> None:
    most = max(int(graph.train.sum()) for graph in graphs)
    method = PaceRidge(rows=most, smallest_class=1, nodes_per_row=1, own=None, numbers="float32")
    whole = agreed(graphs, method)
    uploads = [method.share(whole.start, graph, whole) for graph in graphs]
    returned = next(iter(method.merge(Messages(uploads), whole)))
    found = method.adopt(whole.start, returned, graphs[0], whole)
    classes = whole.model.classes
    labels = torch.cat([one_hot(g.y[g.train], classes) for g in graphs]).double()
    for place, hop in enumerate(method.hops):
        rows = torch.cat([unit_rows(g, hop)[g.train] for g in graphs]).double()
        exact = solve_rows(rows, labels, method.strengths)
        for offset, answer in enumerate(expanded(*compressed(exact, ROWS), 3)):
            torch.testing.assert_close(
                found[3 * place + offset].params[f"hop{hop}"], answer, atol=2e-5, rtol=1e-4
            )


def test_a_class_with_few_training_nodes_leaves_no_trace(graphs: list[Graph]) -> None:
    method = PaceRidge()
    whole, graph = agreed(graphs), graphs[0]
    rare = int(torch.bincount(graph.y[graph.train], minlength=whole.model.classes).argmax())
    members = (graph.train & (graph.y == rare)).nonzero().flatten()
    few = graph.train.clone()
    few[members[method.smallest_class - 1 :]] = False
    some = replace(graph, train=few)
    none = replace(graph, train=few & (graph.y != rare))
    sent = method.share(whole.start, some, whole)
    without = method.share(whole.start, none, whole)
    assert all(torch.equal(sent[name], without[name]) for name in sent)
    one_more = few.clone()
    one_more[members[method.smallest_class - 1]] = True
    enough = method.share(whole.start, replace(graph, train=one_more), whole)
    assert not torch.equal(enough["hop0/labels"], sent["hop0/labels"])
    assert float(enough["hop0/labels"][:, rare].norm()) > 0


def test_a_small_site_sends_a_row_for_every_five_training_nodes(graphs: list[Graph]) -> None:
    whole, graph = agreed(graphs), graphs[0]
    members = (graph.y == graph.y.mode().values).nonzero().flatten()
    assert len(members) >= 10
    nobody = torch.zeros_like(graph.train)
    for count in (4, 5, 9, 10):
        mask = torch.zeros_like(graph.train)
        mask[members[:count]] = True
        site = replace(graph, train=mask, val=nobody, test=nobody)
        sent = PaceRidge().share(whole.start, site, whole)
        for hop in (0, 2):
            assert int(sent[f"hop{hop}/rows"].any(1).sum()) == count // 5


def test_receivers_are_never_worse_on_validation_than_local(graphs: list[Graph]) -> None:
    whole = agreed(graphs)
    fitted = [steps.fit(graph, whole) for graph in graphs]
    returns = steps.merge([upload for _, upload in fitted], whole)
    assert len({returned[wire.HEAD.size : -wire.CHECKSUM] for returned in returns}) == 1
    gained = 0
    for graph, (kept, _), returned in zip(graphs, fitted, returns, strict=True):
        found = steps.adopt(graph, kept, returned, whole)
        assert len(found.externals) == 8
        labels = graph.y[graph.val]
        local = nll(found.local[graph.val], labels)
        assert nll(found.logits[graph.val], labels) <= local
        gained += found.alpha > 0
    assert gained > 0
    blind = replace(graphs[0], val=torch.zeros_like(graphs[0].val))
    found = steps.adopt(blind, fitted[0][0], returns[0], whole)
    assert found.weights == (1.0,) + (0.0,) * 8


@pytest.mark.parametrize("kind", ["sage", "gat", "mlp"])
def test_local_may_be_any_model(graphs: list[Graph], kind: str) -> None:
    classes = 1 + max(int(graph.y.max()) for graph in graphs)
    whole = Federation(MODELS[kind]((graphs[0].features, 8, classes)), PaceRidge(), epochs=2)
    fitted = [steps.fit(graph, whole) for graph in graphs[:2]]
    returns = steps.merge([upload for _, upload in fitted], whole)
    found = steps.adopt(graphs[0], fitted[0][0], returns[0], whole)
    assert torch.equal(found.local, whole.network(fitted[0][0].local, graphs[0]).logits)
    assert len(found.externals) == 8


def test_edges_may_be_missing_altogether(graphs: list[Graph]) -> None:
    """Hop 0 needs none, and at hop 2 a node without neighbours has its own features."""
    bare = [replace(graph, edges=torch.zeros((2, 0), dtype=torch.int64)) for graph in graphs]
    whole = agreed(bare)
    message = whole.method.share(whole.start, bare[0], whole)
    torch.testing.assert_close(message["hop0/rows"].abs(), message["hop2/rows"].abs())


def test_a_hostile_return_leaves_local(graphs: list[Graph]) -> None:
    whole = agreed(graphs, PaceRidge(numbers="float32"))
    kept, upload = steps.fit(graphs[0], whole)
    (honest,) = steps.merge([upload], whole)
    frame = wire.decode(honest, layouts.return_layout(whole))
    wild = {name: torch.full_like(value, 3e38) for name, value in frame.message.items()}
    returned = wire.encode(wild, whole.digest, kept.upload, whole.numbers)
    found = steps.adopt(graphs[0], kept, returned, whole)
    assert found.weights == (1.0,) + (0.0,) * 8
    assert found.logits is found.local


def test_numbers_no_client_would_send_are_refused(graphs: list[Graph]) -> None:
    whole = agreed(graphs, PaceRidge(numbers="float32"))
    message = dict(whole.method.share(whole.start, graphs[0], whole))
    whole.method.check(message, whole)
    message["hop2/rows"] = message["hop2/rows"] + 2e5
    with pytest.raises(NumberError, match="hop2/rows"):
        whole.method.check(message, whole)


def test_many_clients_are_answered_from_sums_or_a_sketch_near_the_exact_one(
    graphs: list[Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    method = PaceRidge(numbers="float32")
    whole = agreed(graphs, method)
    uploads = [method.share(whole.start, graph, whole) for graph in graphs]
    exact = next(iter(method.merge(Messages(uploads), whole)))
    monkeypatch.setattr(ridge, "STACKED", 0)
    with_gram = next(iter(method.merge(Messages(uploads), whole)))
    monkeypatch.setattr(ridge, "EXACT", 0)
    sketch = next(iter(method.merge(Messages(uploads), whole)))
    for hop in method.hops:  # 60 features, 64 columns: the sketch loses nothing
        one, two, three = (
            m[f"hop{hop}/basis"].T @ m[f"hop{hop}/mixing"] for m in (exact, with_gram, sketch)
        )
        torch.testing.assert_close(one, two, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(one, three, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("features", [257, 1024])
def test_many_clients_are_answered_exactly_up_to_1024_features(features: int) -> None:
    """90 clients of 12 rows: more than are stacked, and more than a sketch of 64 columns holds."""
    random = torch.Generator().manual_seed(4)
    method = PaceRidge(hops=(0,), strengths=(1.0,), own=None, numbers="float32")
    whole = Federation(GCN((features, 8, 3)), method)
    uploads = [
        {
            "hop0/rows": normalize(torch.randn(12, features, generator=random), dim=1),
            "hop0/labels": one_hot(torch.randint(3, (12,), generator=random), 3).float(),
        }
        for _ in range(90)
    ]
    returned = next(iter(method.merge(Messages(uploads), whole)))
    (found,) = expanded(returned["hop0/basis"], returned["hop0/mixing"], 1)
    rows, labels = (
        torch.cat([upload[f"hop0/{part}"] for upload in uploads]).double()
        for part in ("rows", "labels")
    )
    (exact,) = solve_gram(rows.T @ rows, rows.T @ labels, (1.0,))
    centred = (exact - exact.mean(1, keepdim=True)).float()
    torch.testing.assert_close(found, centred, atol=1e-5, rtol=1e-4)


def test_a_receiver_corrects_the_middle_answer(graphs: list[Graph]) -> None:
    """Not the first or the last: V minimises |Y - HV|² + μ|V - W|² around W of λ = 3."""
    method = PaceRidge(numbers="float32")
    whole, graph = agreed(graphs, method), graphs[0]
    uploads = [method.share(whole.start, graph, whole) for graph in graphs]
    returned = next(iter(method.merge(Messages(uploads), whole)))
    answers = method.adopt(whole.start, returned, graph, whole)
    labels = one_hot(graph.y[graph.train], whole.model.classes).double()
    missing = labels - labels.mean(1, keepdim=True)
    for place, hop in enumerate(method.hops):
        first, middle, last, corrected = (
            answer.params[f"hop{hop}"].double() for answer in answers[4 * place : 4 * place + 4]
        )
        rows = unit_rows(graph, hop)[graph.train].double()
        slope = rows.T @ (rows @ corrected - missing)
        distances = [
            float((slope + OWN * (corrected - around)).norm()) for around in (first, middle, last)
        ]
        assert distances[1] < 1e-4
        assert min(distances[0], distances[2]) > 100 * distances[1]


def test_names_build_what_they_say() -> None:
    assert make("pace-ridge") == PaceRidge()
    assert make("pace-ridge", rank=2) == PaceRidge()
    assert Federation(GCN((5, 4, 2)), make("pace-ridge")).numbers == "int8"
    assert make("pace-ridge:strengths=3,own=none") == PaceRidge(strengths=(3.0,), own=None)
    neighbours = Federation(GCN((5, 4, 2)), make("pace-ridge:hops=2"))
    assert [external.name for external in layouts.blank_externals(neighbours)] == [
        "ridge on 2 hops, λ = 1",
        "ridge on 2 hops, λ = 3",
        "ridge on 2 hops, λ = 10",
        "ridge on 2 hops, corrected here",
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"hops": ()},
        {"hops": (0, 0)},
        {"hops": (-1,)},
        {"strengths": ()},
        {"strengths": (0.0,)},
        {"own": float("nan")},
        {"ridge": -1.0},
        {"rows": 0},
        {"smallest_class": 0},
        {"nodes_per_row": 0},
    ],
)
def test_settings_out_of_bounds_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingError):
        PaceRidge(**wrong)  # type: ignore[arg-type]
