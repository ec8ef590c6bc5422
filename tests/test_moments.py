from typing import Any

import numpy as np
import torch
from torch import Tensor

from pace.gcn import GCN
from pace.graph import Graph
from pace.moments import EPS, propagated, raw, uniform
from tests.graphs import CLASSES, FEATURES, clients, none


def by_hand(rows: Tensor, train: Tensor) -> np.ndarray[Any, Any]:
    """The paper's formula, node by node."""
    total = np.zeros(rows.shape[1])
    chosen = train.nonzero().flatten().tolist()
    for node in chosen:
        total += rows[node].double().numpy() ** 2
    moment = total / len(chosen)
    return np.asarray(moment / max(moment.mean(), EPS))


def test_moments_are_those_of_the_paper() -> None:
    graph = clients(1)[0]
    gcn = GCN((FEATURES, 16, CLASSES))
    params = gcn.start(2)
    seen = gcn(params, graph)
    operator = graph.propagation.matrix.to_dense()
    hidden = (operator @ graph.x @ params["0.weight"].t() + params["0.bias"]).relu()
    sketch = propagated(seen, graph)
    assert list(sketch) == ["0.weight", "1.weight"]
    np.testing.assert_allclose(
        sketch["0.weight"], by_hand(operator @ graph.x, graph.train), rtol=1e-4
    )
    np.testing.assert_allclose(
        sketch["1.weight"], by_hand(operator @ hidden, graph.train), rtol=1e-4
    )
    plain = raw(seen, graph)
    np.testing.assert_allclose(plain["0.weight"], by_hand(graph.x, graph.train), rtol=1e-4)
    np.testing.assert_allclose(plain["1.weight"], by_hand(hidden, graph.train), rtol=1e-4)
    assert uniform(seen, graph) == {}


def test_scale_is_not_weight() -> None:
    graph = clients(1)[0]
    loud = Graph.build(100 * graph.x, graph.edges, graph.y, train=graph.train)
    gcn = GCN((FEATURES, CLASSES))
    quiet = propagated(gcn(gcn.start(1), graph), graph)["0.weight"]
    torch.testing.assert_close(propagated(gcn(gcn.start(1), loud), loud)["0.weight"], quiet)
    torch.testing.assert_close(quiet.mean(), torch.tensor(1.0))


def test_labels_do_not_enter_the_sketch() -> None:
    graph = clients(1)[0]
    other = Graph.build(graph.x, graph.edges, (graph.y + 1) % CLASSES, train=graph.train)
    gcn = GCN((FEATURES, 16, CLASSES))
    seen = gcn(gcn.start(1), graph)
    for name, moment in propagated(seen, graph).items():
        assert torch.equal(moment, propagated(gcn(gcn.start(1), other), other)[name])


def test_no_training_nodes_give_zero_moments() -> None:
    graph = clients(1)[0]
    idle = Graph.build(graph.x, graph.edges, graph.y, train=none(graph.nodes))
    gcn = GCN((FEATURES, 16, CLASSES))
    for moment in propagated(gcn(gcn.start(1), idle), idle).values():
        assert not moment.any()
