"""Methods over many rounds: a round is the method's own, and a hundred gradients are one training."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from pace.gates import mix, weigh
from pace.methods import FedAvg
from pace.models import GCN
from pace.params import size
from pace.protocol import Federation, adopt, layouts, merge
from pace.protocol.steps import share
from pace.runtimes.simulation import simulate
from pace.task import accuracy, pooled
from pace.training import train
from pace_study.controls import study_method
from pace_study.rounds import ROUNDS, Averaged, FedAdam, Played, disjoint_union, merged, with_rows
from tests.graphs import CLASSES, FEATURES, clients

MODEL = GCN((FEATURES, 8, CLASSES))
CALM = GCN((FEATURES, 8, CLASSES), dropout=0.0)


def test_adam_on_the_mean_of_gradients_is_adam_on_the_disjoint_union() -> None:
    """An independent loop: each round every client's gradient, their mean by nodes, torch's Adam."""
    graphs = [*clients(2), *clients(1, nodes=150)]
    leaves = {n: v.clone().requires_grad_() for n, v in CALM.start(7).items()}
    server = torch.optim.Adam(leaves.values(), lr=0.02, weight_decay=5e-4)
    nodes = sum(int(graph.train.sum()) for graph in graphs)
    for _ in range(4):
        total = [torch.zeros_like(leaf) for leaf in leaves.values()]
        for graph in graphs:
            logits = CALM(leaves, graph).logits[graph.train]
            loss = cross_entropy(logits, graph.y[graph.train])
            for entry, part in zip(
                total, torch.autograd.grad(loss, list(leaves.values())), strict=True
            ):
                entry += part * int(graph.train.sum()) / nodes
        for leaf, gradient in zip(leaves.values(), total, strict=True):
            leaf.grad = gradient
        server.step()
    rounds = FedAdam(rounds=4, rate=0.02)
    federation = Federation(CALM, Played(rounds, graphs), 7)
    checkpoints = [
        train(
            disjoint_union(graphs),
            CALM,
            CALM.start(7),
            recipe=replace(federation.recipe, epochs=count, rate=0.02),
            seed=7,
        )
        for count in (1, 2, 3, 4)
    ]
    for name, leaf in leaves.items():
        torch.testing.assert_close(checkpoints[-1][name], leaf.detach(), atol=2e-5, rtol=1e-3)
    found = rounds.play(graphs, federation)
    kept = found.models["train"][0][0].params
    assert any(torch.equal(kept["1.bias"], each["1.bias"]) for each in checkpoints)
    assert found.upload == found.returned == 4 * size(CALM.start(7))


def test_a_round_of_fedavg_is_training_and_the_weighted_mean() -> None:
    graphs = [*clients(2), *clients(1, nodes=150)]
    agreed = Federation(MODEL, FedAvg(), 7)
    rounds = Averaged("fedavg", rounds=1, epochs=2, rates=(0.02,))
    found = rounds.play(graphs, agreed)
    recipe = replace(agreed.recipe, epochs=2, rate=0.02)
    trained = [train(g, MODEL, agreed.start, recipe=recipe, seed=7 + 1) for g in graphs]
    counts = [graph.nodes for graph in graphs]
    for name in agreed.start:
        mean = sum(n * each[name] for n, each in zip(counts, trained, strict=True)) / sum(counts)
        for received, _ in found.models["train"]:
            torch.testing.assert_close(received.params[name], mean, atol=1e-5, rtol=1e-4)
    assert found.upload == layouts.upload_layout(agreed).size
    assert merged(trained, graphs, agreed)[0]["1.bias"].shape == (CLASSES,)


def test_the_best_round_is_that_of_the_validation_nodes() -> None:
    """A rate that destroys the model is not chosen, and the trial counts every round's bytes."""
    graphs = clients(3)
    rounds = Averaged("fedavg", rounds=2, epochs=3, rates=(0.01, 50.0))
    calm = replace(rounds, rates=(0.01,))
    agreed = Federation(MODEL, Played(rounds, graphs), 7)
    both, one = rounds.play(graphs, agreed), calm.play(graphs, agreed)
    assert torch.equal(
        both.models["train"][0][0].params["0.weight"], one.models["train"][0][0].params["0.weight"]
    )


@pytest.mark.parametrize("every_label", [False, True])
def test_a_played_method_is_weighed_beside_local_in_the_same_gate(every_label: bool) -> None:
    graphs = clients(3)
    rounds = FedAdam(rounds=8, features=True, every_label=every_label)
    method = Played(rounds, graphs)
    (trial,) = simulate(graphs, {"fedadam": method}, model=MODEL, seeds=[7], epochs=5).trials
    federation = Federation(MODEL, method, 7, epochs=5)
    whole = method.finish(trial, federation)
    mlp = size(GCN((2 * FEATURES, 8, CLASSES)).start(7))
    expected = 8 * (size(MODEL.start(7)) + mlp) * (3 if every_label else 1)
    assert whole.upload == whole.returned == [expected] * 3
    assert 0 <= trial.ece["adopted"] <= 1
    if not every_label:
        right = []
        local = train(graphs[0], MODEL, MODEL.start(7), recipe=federation.recipe, seed=7)
        models = method.adopt(local, {}, graphs[0], federation)
        sets = [MODEL(local, graphs[0]).logits.detach()]
        sets += [each.predict(each.params, graphs[0]) for each in models if each.predict]
        weights = weigh([each[graphs[0].val] for each in sets], graphs[0].y[graphs[0].val])
        called = mix(sets, weights).argmax(1)
        right.append(int((called == graphs[0].y)[graphs[0].test].sum()))
        assert int(trial.counts["adopted"][0].diagonal().sum()) == right[0]
    assert accuracy(pooled(trial.counts["adopted"])) > 0.4


def test_every_label_is_held_out_where_it_weighs() -> None:
    """No model weighs on a node that it was fitted on."""
    graphs = clients(2)
    method = Played(FedAdam(rounds=4, every_label=True), graphs)
    federation = Federation(MODEL, method, 7)
    models, graph = method.adopt(federation.start, {}, graphs[0], federation), graphs[0]
    assert [model.held_out for model in models] == ["", "val", "val", "train", "train"]
    played = method.played(federation)[0].models
    assert set(played) == {"train", "val", "all"}
    for model, fit in zip(models[2::2], ("train", "val"), strict=True):
        assert model.params is played[fit][0][0].params
    kept, upload = share(federation.start, graph, federation)
    (returned,) = merge([upload], federation)
    first, second = adopt(graph, kept, returned, federation).rehearsals
    assert first.held_out.equal(graph.val)
    assert second.held_out.equal(graph.train)


def test_rows_beside_features_and_settings_of_a_cell() -> None:
    (graph,) = clients(1)
    wide = with_rows(graph)
    assert wide.x.shape == (graph.nodes, 2 * FEATURES)
    assert wide.edges.shape[1] == 0
    torch.testing.assert_close(wide.x[:, :FEATURES].norm(dim=1), torch.ones(graph.nodes))
    described = Federation(MODEL, study_method("fedadam-full")).describe()["method"]
    assert described["rounds"]["rounds"] == 100
    assert described["rounds"]["every_label"] is True
    assert set(ROUNDS) >= {"fedavg-rounds", "fedpub-rounds", "fedgta-rounds", "fedadam"}
