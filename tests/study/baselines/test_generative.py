"""SPIRE, GHOST, DENSE and FENS: their equations against loops, SciPy and torch's own optimiser."""

import numpy as np
import pytest
import torch
from scipy.stats import entropy

from pace.graph import Graph
from pace.models import GCN
from pace.params import Params
from pace.protocol import Federation, Messages
from pace.runtimes.simulation import simulate
from pace.task import accuracy, pooled
from pace.training import Recipe, train
from pace_study.baselines.fedtad import nearest
from pace_study.baselines.generative import (
    Dense,
    Ghost,
    Spire,
    degree_entropy,
    denoised,
    joined_to_nearest,
    structural_weights,
    topology,
)
from pace_study.rounds import Played, Stacked
from tests.graphs import CLASSES, FEATURES, clients

MODEL = GCN((FEATURES, 8, CLASSES))


def test_degree_entropy_is_shannons_over_the_log_of_the_nodes() -> None:
    star = torch.tensor([[0, 0, 0], [1, 2, 3]])
    graph = Graph.build(torch.eye(5), star, torch.zeros(5, dtype=torch.int64))
    assert float(degree_entropy(graph)) == pytest.approx(entropy([3, 1, 1, 1]) / np.log(5))
    alone = Graph.build(torch.eye(2), star[:, :0], torch.zeros(2, dtype=torch.int64))
    assert float(degree_entropy(alone)) == 0
    two = structural_weights(torch.tensor([0.2, 0.9]))
    expected = np.exp([-0.2, -0.9]) / np.exp([-0.2, -0.9]).sum()
    np.testing.assert_allclose(two.numpy(), expected, rtol=1e-6)


def test_spires_prototypes_are_unit_means_and_its_generator_reproduces_them() -> None:
    (graph,) = clients(1)
    method = Spire()
    sent = method.share({}, graph, Federation(MODEL, method, 7))["prototypes"]
    for label in range(CLASSES):
        own = graph.x[graph.train & (graph.y == label)]
        mean = own.mean(0) if len(own) else torch.zeros(FEATURES)
        torch.testing.assert_close(sent[label], mean / mean.norm().clamp_min(1e-9))
    random = torch.Generator().manual_seed(3)
    generator = method.fitted(sent, random)
    labels = torch.arange(CLASSES).repeat_interleave(200)
    rows = denoised(generator, torch.randn(len(labels), 32, generator=random), sent[labels])
    for label in range(CLASSES):
        made = rows[labels == label].mean(0)
        assert float((made - sent[label]).norm()) < 0.3  # prototypes have length one


def test_pseudo_nodes_are_joined_to_the_nearest() -> None:
    rows = torch.tensor([[0.0], [1.0], [3.0], [10.0]])
    graph = joined_to_nearest(rows, torch.tensor([0, 0, 1, 1]), 1)
    found = {tuple(sorted(edge)) for edge in graph.edges.T.tolist()}
    assert found == {(0, 1), (1, 2), (2, 3)}
    assert bool(graph.train.all())


def test_ghosts_criterion_is_the_sum_over_edges() -> None:
    """Edge by edge, as the authors write it."""
    rows = torch.randn(7, FEATURES, generator=torch.Generator().manual_seed(0))
    around = nearest(rows)
    params = MODEL.start(3)
    hidden = (around @ rows @ params["0.weight"].T + params["0.bias"]).relu()
    total = 0.0
    for i in range(7):
        for j in range(7):
            if around[i, j] > 0:
                first, second = (hidden[v] @ params["0.weight"] for v in (i, j))
                total += float(first @ second.tanh()) ** 2
    assert float(topology(params, around @ rows, around)) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("method", [Spire(), Ghost()])
def test_a_generated_graph_teaches_more_than_chance(method: Spire | Ghost) -> None:
    (trial,) = simulate(clients(3), {"rival": method}, model=MODEL, seeds=[7], epochs=20).trials
    assert accuracy(pooled(trial.counts["external"])) > 1.5 / CLASSES


def test_denses_student_learns_what_the_mean_of_the_clients_says() -> None:
    """On pseudo-nodes of the server; measured on nodes that it has never seen."""
    graphs = clients(3)
    federation = Federation(MODEL, Dense(), 7)
    locals_ = [dict(train(g, MODEL, federation.start, recipe=Recipe(), seed=7)) for g in graphs]
    student = next(iter(Dense(rounds=20).merge(Messages(locals_), federation)))

    def agreement(params: Params) -> float:
        same = nodes = 0
        for graph in graphs:
            mean = torch.stack([MODEL(each, graph).logits for each in locals_]).mean(0)
            same += int((MODEL(params, graph).logits.argmax(1) == mean.argmax(1)).sum())
            nodes += graph.nodes
        return same / nodes

    assert agreement(dict(student)) > agreement(federation.start) + 0.2


def test_fens_is_adam_on_a_linear_layer_over_all_models_logits() -> None:
    graphs = clients(3)
    rounds = Stacked(rounds=20, rate=0.05)
    federation = Federation(MODEL, Played(rounds, graphs), 7)
    outcome = rounds.play(graphs, federation)
    ((external,), *_) = outcome.models["train"]
    models = [train(g, MODEL, MODEL.start(7), recipe=federation.recipe, seed=7) for g in graphs]
    layer = torch.nn.Linear(3 * CLASSES, CLASSES)
    with torch.no_grad():
        layer.weight.copy_(torch.cat([torch.eye(CLASSES)] * 3, 1) / 3)
        layer.bias.zero_()
    rows = torch.cat(
        [torch.cat([MODEL(m, g).logits.detach() for m in models], 1)[g.val] for g in graphs]
    )
    labels = torch.cat([g.y[g.val] for g in graphs])
    adam = torch.optim.Adam(layer.parameters(), lr=0.05, weight_decay=Recipe().decay)
    for _ in range(20):
        adam.zero_grad()
        torch.nn.functional.cross_entropy(layer(rows), labels).backward()
        adam.step()
    torch.testing.assert_close(
        external.params["weight"], layer.weight.detach().T, atol=1e-4, rtol=1e-3
    )
    assert external.predict is not None
    assert external.predict(external.params, graphs[0]).shape == (graphs[0].nodes, CLASSES)
    weights = sum(value.numel() for value in MODEL.start(7).values()) * 4
    head = 20 * 4 * (3 * CLASSES + 1) * CLASSES
    assert (outcome.upload, outcome.returned) == (weights + head, 3 * weights + head)
