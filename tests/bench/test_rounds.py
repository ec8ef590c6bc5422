"""Methods over many rounds: a round is the method's own, and validation nodes choose."""

from dataclasses import replace

import pytest
import torch
from benchmarks import rounds
from benchmarks.rounds import Schedule

from pace.datasets.dataset import Dataset
from pace.datasets.partition.divide import Division, Nodes
from pace.gates.mixture import mix, weigh
from pace.graph import Graph
from pace.methods import FedAvg
from pace.methods.beyond.ridge import HOPS, SCALE, STRENGTHS
from pace.models.gcn import GCN
from pace.protocol import steps, wire
from pace.protocol.federation import Federation
from pace.task import nll
from pace.training.train import train
from pace_study.baselines.fedpub import FedPub
from tests.graphs import CLASSES, FEATURES, clients, federation

GCN_OF = GCN((FEATURES, 8, CLASSES))


def test_a_round_of_fedavg_is_training_and_the_weighted_mean() -> None:
    graphs = [*clients(2), *clients(1, nodes=150)]
    agreed = Federation(GCN_OF, FedAvg(), 7)
    played = rounds.play(graphs, agreed, Schedule(1, epochs=2, rate=0.02), 7)
    recipe = replace(agreed.recipe, epochs=2, rate=0.02)
    trained = [train(g, GCN_OF, agreed.start, recipe=recipe, seed=7 + 1) for g in graphs]
    counts = [graph.nodes for graph in graphs]
    for name in agreed.start:
        mean = sum(n * each[name] for n, each in zip(counts, trained, strict=True)) / sum(counts)
        for model in played.models:
            torch.testing.assert_close(model[name], mean, atol=1e-5, rtol=1e-4)


def test_the_best_round_and_the_best_rate_are_those_of_the_validation_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graphs, scores = clients(2), iter([40.0, 70.0, 60.0, 50.0, 65.0, 55.0])
    monkeypatch.setattr(rounds, "EVERY", 1)
    monkeypatch.setattr(rounds, "accuracy", lambda *_: next(scores))
    schedules = [Schedule(3, 1, 0.01), Schedule(3, 1, 0.03)]
    found = rounds.searched(graphs, GCN_OF, FedAvg(), 1, schedules)
    assert (found.schedule, found.best, found.validation) == (schedules[0], 2, 70.0)
    agreed = Federation(GCN_OF, FedAvg(), 1)
    once = wire.size(steps.upload_layout(agreed)) + wire.size(steps.return_layout(agreed))
    assert found.bytes == 3 * once


def test_what_is_compared_is_received_tuned_and_both_in_the_gate_with_local() -> None:
    graphs = clients(3)
    agreed = federation(FedPub(), hidden=8)
    local = [
        torch.randn(graph.nodes, CLASSES, generator=torch.Generator().manual_seed(place))
        for place, graph in enumerate(graphs)
    ]
    found = rounds.compared(graphs, GCN_OF, FedPub(), local, 7, [Schedule(2, 1)])
    played = rounds.searched(graphs, GCN_OF, FedPub(), 7, [Schedule(2, 1)])
    received = rounds.logits(played.models, graphs, agreed)
    assert found.received == rounds.accuracy(received, graphs, "test")
    tuned = rounds.logits(rounds.tuned(played, graphs, agreed), graphs, agreed)
    gated = []
    for graph, sets in zip(graphs, zip(local, received, tuned, strict=True), strict=True):
        labels = graph.y[graph.val]
        gated.append(mix(sets, weigh([each[graph.val] for each in sets], labels)))
        assert nll(gated[-1][graph.val], labels) <= nll(sets[0][graph.val], labels)
    assert found.in_the_gate == rounds.accuracy(gated, graphs, "test")
    assert found.harmed == rounds.harmed(gated, local, graphs)


def test_the_ceiling_has_everybodys_nodes_masks_and_edges() -> None:
    (graph,) = clients(1)
    halves: list[Nodes] = [range(0, graph.nodes, 2), range(1, graph.nodes, 2)]
    parts = [graph_of(graph, nodes) for nodes in halves]
    dataset = Dataset("one", graph, CLASSES)
    division = Division(parts, nodes=halves, dataset=dataset, partition="halves", data_seed=None)
    whole = rounds.whole(dataset, division)
    for mask in ("train", "val", "test"):
        assert getattr(whole, mask).equal(getattr(graph, mask))
    assert whole.edges.equal(graph.edges)
    found = rounds.ceiling(whole, GCN_OF, [1, 2])
    assert [len(values) for values in found.values()] == [2, 2, 2]
    assert found["ridge"] == found["ridge"][:1] * 2  # no seed enters a regression
    assert (SCALE, HOPS, STRENGTHS) == (10.0, (0, 2), (1.0, 3.0, 10.0))


def graph_of(graph: Graph, nodes: Nodes) -> Graph:
    kept = torch.as_tensor(nodes)
    none = torch.zeros((2, 0), dtype=torch.int64)
    masks = (graph.train[kept], graph.val[kept], graph.test[kept])
    return Graph(graph.x[kept], none, graph.y[kept], *masks)
