"""What FedGTA and FedTAD tell the server about their labels, against plain loops and dense matrices."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.nn.functional import one_hot

from pace.graph import Graph
from pace.protocol.federation import Federation
from pace_study.baselines.fedgta import FedGTA
from pace_study.baselines.fedtad import FedTAD, reliability, walked_ids, within_clients
from tests.graphs import CLASSES, clients, federation

GRAPH = clients(1)[0]


def adjacency(graph: Graph) -> Tensor:
    dense = torch.zeros(graph.nodes, graph.nodes, dtype=torch.float64)
    dense[graph.edges[0], graph.edges[1]] = 1
    return dense


def randomness(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def star() -> Graph:
    """A hub among training nodes: what they send it sums to more than one, and is clamped."""
    nodes = len(GRAPH.x)
    edges = torch.stack([torch.zeros(nodes - 1, dtype=torch.int64), torch.arange(1, nodes)])
    train = torch.arange(nodes) > 0
    return Graph.build(GRAPH.x, edges, GRAPH.y, train=train)


def statistics_by_hand(soft: Tensor, graph: Graph) -> tuple[Tensor, float]:
    """FedGTA's moments and confidence with dense matrices and loops."""
    classes = soft.shape[1]
    truth = one_hot(graph.y, classes).double()
    matrix = adjacency(graph)
    degree = matrix.sum(1)
    known = graph.train[:, None]
    begin = torch.where(known, soft, torch.zeros_like(soft))
    root = matrix.sum(1).clamp_min(1).rsqrt()
    matrix = root[:, None] * matrix * root
    z = begin
    for _ in range(5):
        z = (0.5 * matrix @ z + 0.5 * begin).clamp(0, 1)
    near = torch.where(known, truth, z.softmax(1)).numpy()
    far = torch.where(known, truth, (z / 20).softmax(1)).numpy()
    raw = [(near**k).mean(0) for k in range(1, 11)]
    central = [stats.moment(near, k, axis=0) for k in range(1, 11)]
    entropy = sum(
        float(degree[v]) * (classes / math.e + sum(p * math.log(p + 1e-8) for p in far[v]))
        for v in range(graph.nodes)
    )
    return torch.from_numpy(np.concatenate(raw + central)), entropy


@pytest.mark.parametrize("graph", [GRAPH, star()], ids=["client", "star"])
def test_fedgtas_statistics(graph: Graph) -> None:
    agreed = federation(FedGTA())
    local = {name: 2 * value for name, value in agreed.start.items()}
    upload = agreed.method.share(local, graph, agreed)
    soft = agreed.network(local, graph).logits.double().softmax(1)
    moments, confidence = statistics_by_hand(soft, graph)
    assert upload["moments"].shape == (20 * CLASSES,)
    torch.testing.assert_close(upload["moments"], moments, rtol=1e-4, atol=1e-6)
    assert float(upload["confidence"]) == pytest.approx(confidence, rel=1e-5)


def test_the_confidence_of_a_certain_client_is_its_bound() -> None:
    agreed = federation(FedGTA())
    everyone = torch.ones(90, dtype=torch.bool)
    nobody = ~everyone
    sure = Graph(GRAPH.x, GRAPH.edges, GRAPH.y, everyone, nobody, nobody)
    upload = agreed.method.share(agreed.start, sure, agreed)
    bound = GRAPH.edges.shape[1] * CLASSES / math.e
    assert float(upload["confidence"]) == pytest.approx(bound, rel=1e-6)


def test_reliability_is_its_formula_node_by_node() -> None:
    columns = torch.randn(90, 3, generator=randomness())
    found = reliability(GRAPH, CLASSES, columns)
    described = torch.cat([GRAPH.x, columns], dim=1).double()
    unit = described / described.norm(dim=1, keepdim=True)
    matrix = adjacency(GRAPH)
    expected = torch.zeros(CLASSES, dtype=torch.float64)
    for v in GRAPH.train.nonzero().flatten().tolist():
        near = matrix[v].nonzero().flatten()
        expected[GRAPH.y[v]] += (1 + float((unit[near] @ unit[v]).sum())) / (len(near) + 1)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_the_released_walk_has_the_law_of_the_softmax_of_its_diagonal() -> None:
    """One step from node 0 of a star, drawn many times, against the dense transition matrix."""
    edges = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
    none = torch.zeros(4, dtype=torch.bool)
    star = Graph(torch.zeros(4, 1), edges, torch.zeros(4, dtype=torch.int64), none, none, none)
    looped = adjacency(star) + torch.eye(4, dtype=torch.float64)
    law = (looped * torch.linalg.pinv(torch.diag(looped.sum(1)))).softmax(1)
    random = randomness()
    draws = torch.stack([walked_ids(star, random)[:, 0].long() for _ in range(2000)])
    for node in range(4):
        counts = draws[:, node].bincount(minlength=4)
        assert stats.chisquare(counts.numpy(), 2000 * law[node].numpy()).pvalue > 1e-4


def test_the_released_walk_visits_fifteen_nodes_and_steps_on_from_each() -> None:
    ids = walked_ids(GRAPH, randomness())
    assert ids.shape == (90, 15)
    assert ids.min() >= 0
    assert ids.max() < 90
    # Nearly uniform, so that a node says nothing of where its walk goes.
    assert abs(float(ids.mean()) - 44.5) < 3
    assert not torch.equal(ids, walked_ids(GRAPH, randomness(1)))
    torch.testing.assert_close(ids, walked_ids(GRAPH, randomness()), rtol=0, atol=0)


def test_a_clients_weights_sum_to_one_over_classes() -> None:
    raw = torch.tensor([[1.0, 3.0, 0.0], [2.0, 2.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(within_clients(raw).sum(1), torch.ones(2, dtype=torch.float64))


def test_the_walk_is_the_federations() -> None:
    def told(agreed: Federation) -> Tensor:
        return agreed.method.share(agreed.start, GRAPH, agreed)["reliability"]

    assert torch.equal(told(federation(FedTAD())), told(federation(FedTAD())))
    assert not torch.equal(told(federation(FedTAD())), told(federation(FedTAD(), seed=8)))
