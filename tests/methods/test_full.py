"""pace-full: every label is used, and none weighs a model that has seen it."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pace import GCN, Federation
from pace.gates import no_worse_than_local
from pace.graph import Graph
from pace.methods import FullSums, Pace, PaceFull, Regression
from pace.models import MODELS, refitted, sized
from pace.models.refitted import (
    ALL,
    FITS,
    fit_of,
    fitted_nodes,
    fitted_on,
    regrouped,
    trained_fits,
)
from pace.protocol.layouts import upload_layout
from pace.protocol.steps import Adoption, adopt, fit, merge, share
from pace.protocol.uploads import Messages
from pace.training.train import train, train_cohort
from tests.graphs import CLASSES, FEATURES, clients

MODEL = GCN((FEATURES, 8, CLASSES))
METHODS = [PaceFull(), FullSums()]


def federation(method: PaceFull | FullSums) -> Federation:
    return Federation(MODEL, method, 7, 5)


def relabelled(graph: Graph, nodes: Tensor) -> Graph:
    return replace(graph, y=torch.where(nodes, (graph.y + 1) % CLASSES, graph.y))


def played(graphs: list[Graph], method: PaceFull | FullSums) -> list[Adoption]:
    agreed = federation(method)
    fitted = [fit(graph, agreed) for graph in graphs]
    returns = merge([upload for _, upload in fitted], agreed)
    return [
        adopt(graph, kept, returned, agreed)
        for graph, (kept, _), returned in zip(graphs, fitted, returns, strict=True)
    ]


@pytest.mark.parametrize("name", ["hop0", "hop2", "neighbourhood", "labels"])
def test_training_and_validation_rows_apart_give_the_ridge_on_both_pooled(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By least squares on the stacked rows of all clients: rows of √λ below make it a ridge.

    Known labels are other rows in each fit: those of both are sent for themselves.
    """
    graphs, method = clients(3), FullSums()
    agreed = federation(method)
    uploads = [method.share({}, graph, agreed) for graph in graphs]
    total = method.total(Messages(uploads), agreed)
    solved: list[Tensor] = []  # of each map and fit, before it is cut to a few directions

    def kept(answers: Tensor, rank: int) -> tuple[Tensor, Tensor]:
        solved.append(answers)
        return answers, answers

    monkeypatch.setattr("pace.merging.compressed", kept)
    method.answer(total, agreed)
    answers = solved[len(FITS) * method.maps.index(name) :][: len(FITS)]
    for part, of_strengths in zip(FITS, answers, strict=True):
        stacks = [Regression(name, part).fitted_rows(graph, CLASSES) for graph in graphs]
        rows, labels = (torch.cat(column).double() for column in zip(*stacks, strict=True))
        for strength, answer in zip(method.strengths, of_strengths, strict=True):
            ridge = strength**0.5 * torch.eye(rows.shape[1], dtype=torch.float64)
            nothing = torch.zeros(rows.shape[1], CLASSES, dtype=torch.float64)
            expected = torch.linalg.lstsq(
                torch.cat([rows, ridge]), torch.cat([labels, nothing])
            ).solution
            torch.testing.assert_close(answer, expected, atol=1e-5, rtol=1e-4)


def test_the_answer_does_not_depend_on_who_holds_which_node() -> None:
    """Own features need no edge: the same nodes in other hands give the same regression."""
    method = FullSums()
    agreed = federation(method)
    whole = clients(1)[0]
    parts = [torch.arange(whole.nodes) % 3 == share for share in range(3)]
    none = whole.edges[:, :0]

    def total(hands: list[Tensor]) -> Tensor:
        uploads = [
            method.share(
                {},
                Graph(
                    whole.x[nodes],
                    none,
                    whole.y[nodes],
                    whole.train[nodes],
                    whole.val[nodes],
                    whole.test[nodes],
                ),
                agreed,
            )
            for nodes in hands
        ]
        return method.total(Messages(uploads), agreed)["hop0/val/gram"]

    everyone = torch.ones(whole.nodes, dtype=torch.bool)
    torch.testing.assert_close(total(parts), total([everyone]), rtol=1e-5, atol=1e-6)


def test_a_refitted_model_is_what_training_alone_gives() -> None:
    graphs, agreed = clients(2), federation(PaceFull())
    (together,) = train_cohort(
        graphs, agreed.network, {7: agreed.start}, recipe=agreed.recipe
    ).values()
    for graph, params in zip(graphs, together, strict=True):
        for part in FITS:
            alone = train(
                fitted_on(graph, part), MODEL, MODEL.start(7), recipe=agreed.recipe, seed=7
            )
            for name, value in fit_of(params, part).items():
                assert torch.equal(value, alone[name])


@pytest.mark.parametrize("method", METHODS, ids=["rows", "sums"])
@pytest.mark.parametrize("part", FITS[:2])
def test_held_out_labels_change_nothing_of_what_they_weigh(
    method: PaceFull | FullSums, part: str
) -> None:
    """The models of a rehearsal are the same whatever the labels are that weigh them."""
    graphs = clients(3)
    sets = []
    for scrambled in (False, True):
        seen = [
            relabelled(graph, graph.train | graph.val & ~fitted_nodes(graph, part))
            if scrambled and part == "val"
            else relabelled(graph, graph.val)
            if scrambled
            else graph
            for graph in graphs
        ]
        agreed = federation(method)
        kept = [fit(graph, agreed)[0] for graph in seen]
        message = next(
            iter(
                method.merge(
                    Messages(
                        [
                            method.share(each.local, graph, agreed)
                            for each, graph in zip(kept, seen, strict=True)
                        ]
                    ),
                    agreed,
                )
            )
        )
        models = method.adopt(kept[0].local, message, seen[0], agreed)
        assert {model.held_out for model in models} == {"", "train", "val"}
        out = "val" if part == "train" else "train"
        chosen = [model for model in models if model.held_out == out]
        assert len(chosen) == 1 + len([model for model in models if not model.held_out])
        sets.append([model.predict(model.params, seen[0]) for model in chosen if model.predict])
    for before, after in zip(*sets, strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("method", METHODS, ids=["rows", "sums"])
def test_without_weight_for_what_came_back_it_is_the_refitted_local(
    method: PaceFull | FullSums,
) -> None:
    graphs = [
        replace(graph, val=torch.zeros_like(graph.val), train=torch.zeros_like(graph.train))
        for graph in clients(3)
    ]
    agreed = federation(method)
    shared = [share(agreed.start, graph, agreed) for graph in graphs]
    returns = merge([upload for _, upload in shared], agreed)
    for graph, (kept, _), returned in zip(graphs, shared, returns, strict=True):
        adoption = adopt(graph, kept, returned, agreed)
        assert adoption.alpha == 0
        assert torch.equal(adoption.logits, MODEL(fit_of(agreed.start, ALL), graph).logits)


@pytest.mark.parametrize("method", METHODS, ids=["rows", "sums"])
def test_weights_are_the_mean_of_both_ways_by_nodes(method: PaceFull | FullSums) -> None:
    for adoption in played(clients(3), method):
        assert len(adoption.weights) == 1 + len(adoption.externals)
        assert min(adoption.weights) >= 0
        assert torch.isfinite(adoption.logits).all()


@pytest.mark.parametrize("method", METHODS, ids=["rows", "sums"])
def test_with_very_many_labels_one_training_does(
    method: PaceFull | FullSums, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees all labels but those that are held out, and those alone weigh it."""
    monkeypatch.setattr(refitted, "HELD_OUT", 7)
    graphs, agreed = clients(3), federation(method)
    large, small = graphs[0], graphs[1]
    monkeypatch.setattr(refitted, "MANY", int((large.train | large.val).sum()))
    small = replace(small, val=small.val & (torch.arange(small.nodes) % 2 == 0))
    assert trained_fits(small) == FITS
    assert regrouped(small) is small
    grouped = regrouped(large)
    assert int(grouped.val.sum()) == 7
    assert not (grouped.val & ~large.val).any()
    assert torch.equal(grouped.train | grouped.val, large.train | large.val)
    starts = {7: agreed.start}
    together = train_cohort([large, small], agreed.network, starts, recipe=agreed.recipe)[7]
    once = train(fitted_on(grouped, "train"), MODEL, MODEL.start(7), recipe=agreed.recipe, seed=7)
    for part in FITS:
        for name, value in fit_of(together[0], part).items():
            assert torch.equal(value, once[name])
    assert len({float(fit_of(together[1], part)["1.weight"].sum()) for part in FITS}) == 3
    fitted = [fit(graph, agreed) for graph in (large, small)]
    assert torch.equal(fitted[0][0].local["0.weight"], once["0.weight"])
    returns = merge([upload for _, upload in fitted], agreed)
    adoption = adopt(large, fitted[0][0], returns[0], agreed)
    (rehearsal,) = adoption.rehearsals
    assert torch.equal(rehearsal.held_out, grouped.val)
    assert len(adopt(small, fitted[1][0], returns[1], agreed).rehearsals) == 2


def test_of_very_many_validation_nodes_those_of_every_part_of_the_table_are_held_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table is often in the order of its classes: the first nodes would be of one class alone."""
    monkeypatch.setattr(refitted, "HELD_OUT", 40)
    monkeypatch.setattr(refitted, "MANY", 400)
    labels = torch.arange(CLASSES).repeat_interleave(100)
    none = torch.zeros((2, 0), dtype=torch.int64)
    graph = Graph.build(torch.ones(len(labels), 1), none, labels, val=labels >= 0)
    held_out = regrouped(graph).val
    assert int(held_out.sum()) == 40
    assert labels[held_out].unique().tolist() == list(range(CLASSES))


@pytest.mark.parametrize("features", [1, 40, 300, 1433])
def test_an_upload_has_no_more_rows_than_columns_and_at_most_twice_paces_bytes(
    features: int,
) -> None:
    """Of few features PACE's upload has little more than its frame: there it may be more."""
    pace, ours = (
        upload_layout(Federation(GCN((features, 64, 7)), method)) for method in (Pace(), PaceFull())
    )
    rows = [shape for name, shape in ours.items() if name.endswith("/rows")]
    assert rows
    assert all(count <= columns for count, columns in rows)
    assert features < 300 or ours.size <= 2 * pace.size


@pytest.mark.parametrize("kind", MODELS)
def test_any_model_can_be_local(kind: str) -> None:
    """What is used is finite, Local is the refitted one, and other graphs are predicted."""
    graphs, method = clients(2), PaceFull()
    agreed = Federation(sized(kind, FEATURES, 8, 2, CLASSES), method, 7, 5)
    fitted = [fit(graph, agreed) for graph in graphs]
    returns = merge([upload for _, upload in fitted], agreed)
    for graph, (kept, _), returned in zip(graphs, fitted, returns, strict=True):
        adoption = adopt(graph, kept, returned, agreed)
        assert torch.isfinite(adoption.logits).all()
        assert adoption.model(clients(1, seed=5)[0]).shape[1] == CLASSES
        local = agreed.model(fit_of(kept.local, ALL), graph).logits
        torch.testing.assert_close(adoption.local, local)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_weights_are_the_mean_of_both_rehearsals_by_their_held_out_nodes(
    method: PaceFull | FullSums,
) -> None:
    graphs = [replace(graph, val=graph.val & (graph.y > 0)) for graph in clients(3)]
    differ = False
    for graph, adoption in zip(graphs, played(graphs, method), strict=True):
        chosen, counts = [], []
        for rehearsal in adoption.rehearsals:
            nodes = rehearsal.held_out
            weights = method.gate([logits[nodes] for logits in rehearsal.sets], graph.y[nodes])
            chosen.append(no_worse_than_local(rehearsal.sets, weights, nodes, graph.y[nodes]))
            counts.append(int(nodes.sum()))
        assert len(set(counts)) == len(FITS) - 1
        mean = torch.tensor(counts).double() @ torch.tensor(chosen).double() / sum(counts)
        torch.testing.assert_close(torch.tensor(adoption.weights).double(), mean)
        differ |= chosen[0] != chosen[1]
    assert differ
