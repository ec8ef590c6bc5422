from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pace.errors import MomentError
from pace.graph import Graph
from pace.merging.moments import EPS, check, propagated, raw, uniform
from pace.methods import Pace
from pace.models.networks import GCN
from pace.models.propagation import propagation
from pace.protocol import steps
from pace.protocol.federation import Federation
from pace.protocol.number_formats import KINDS
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
    operator = propagation(graph).matrix.to_dense()
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


@pytest.mark.parametrize("numbers", KINDS)
@pytest.mark.parametrize("scale", [1e-20, 1e-7, 1e6])
def test_moments_of_features_of_any_size_are_admitted(scale: float, numbers: str) -> None:
    """Where messages are tiny the divisor is ε, and the mean of the moments is below one."""
    graph = clients(1)[0]
    sized = Graph.build(scale * graph.x, graph.edges, graph.y, train=graph.train)
    agreed = Federation(GCN((FEATURES, 16, CLASSES)), Pace(), epochs=2, numbers=numbers)
    mean = steps.check_upload(steps.fit(sized, agreed)[1], agreed)["0.weight/m"].mean()
    assert mean < 0.1 if scale < 1 else mean == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("numbers", KINDS)
def test_a_moment_beyond_float16_is_admitted(numbers: str) -> None:
    """A column that is alone among 70,000 has the moment 70,000; float16 ends at 65,504."""
    x = torch.zeros(2, 70_000)
    x[:, 0] = 1
    label, train = torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.bool)
    graph = Graph.build(x, torch.tensor([[0], [1]]), label, train=train)
    agreed = Federation(GCN((70_000, 4, 2)), Pace(), epochs=0, numbers=numbers)
    moment = steps.check_upload(steps.fit(graph, agreed)[1], agreed)["0.weight/m"]
    assert moment[0] == (70_000 if numbers == "float32" else 65_504)


def test_constants_that_two_masks_share_have_the_moments_of_each() -> None:
    """P X is a constant of the graph; its moment is one of the training nodes."""
    graph = clients(1)[0]
    other = graph.remasked(graph.val, graph.train, graph.test)
    gcn = GCN((FEATURES, CLASSES))
    rows = propagation(graph).matrix.to_dense() @ graph.x
    for masked in (graph, other, graph):
        moments = propagated(gcn(gcn.start(1), masked), masked)["0.weight"]
        np.testing.assert_allclose(moments, by_hand(rows, masked.train), rtol=1e-4)


@pytest.mark.parametrize("clients", [1, 3])
def test_a_mean_may_be_above_one_by_rounding_alone(clients: int) -> None:
    check("0.weight/m", torch.full((4,), 1.0009 * clients), clients)
    with pytest.raises(MomentError, match="expected at most"):
        check("0.weight/m", torch.full((4,), 1.002 * clients), clients)
