import hashlib
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import remove_self_loops, subgraph, to_undirected

from pace.errors import GraphError
from pace.graph import UNKNOWN, Graph, coalesced, induced
from pace.models.propagation import propagation, times_features
from tests.graphs import clients, none


@given(st.integers(1, 30), st.integers(0, 60), st.integers(0, 2**31))
@settings(max_examples=50)
def test_edges_are_made_undirected_as_pyg_does(nodes: int, count: int, seed: int) -> None:
    edges = torch.randint(nodes, (2, count), generator=torch.Generator().manual_seed(seed))
    theirs = to_undirected(remove_self_loops(edges)[0], num_nodes=nodes)
    assert torch.equal(coalesced(edges, nodes)[0], theirs)


def test_propagation_is_pygs_normalisation() -> None:
    graph = clients(1)[0]
    index, weight = gcn_norm(graph.edges, num_nodes=graph.nodes)
    dense = torch.zeros(graph.nodes, graph.nodes)
    dense[index[1], index[0]] = weight
    torch.testing.assert_close(propagation(graph).matrix.to_dense(), dense)


@pytest.mark.parametrize("binary", [True, False])
def test_messages_are_the_propagated_features(binary: bool) -> None:
    graph = clients(1)[0]
    if not binary:
        graph = Graph.build(torch.rand(graph.x.shape), graph.edges, graph.y)
    expected = propagation(graph).matrix.to_dense() @ graph.x
    everyone = torch.arange(graph.nodes)
    torch.testing.assert_close(times_features(propagation(graph), graph)[everyone], expected)


def test_isolated_nodes_keep_their_own_message() -> None:
    graph = Graph.build(torch.eye(3), torch.tensor([[0], [1]]), torch.zeros(3).long())
    assert torch.equal(
        times_features(propagation(graph), graph)[torch.tensor([2])], torch.eye(3)[2:]
    )


def test_induced_graph_is_pygs_subgraph() -> None:
    graph = clients(1)[0]
    nodes = torch.tensor([5, 1, 40, 7, 33, 2])
    part = graph.induced(nodes)
    kept, _ = subgraph(nodes, graph.edges, num_nodes=graph.nodes)
    assert torch.equal(nodes[part.edges].sort(1)[0], kept.sort(1)[0])
    assert torch.equal(part.x, graph.x[nodes])
    assert torch.equal(part.train, graph.train[nodes])


def test_a_graph_survives_pyg() -> None:
    graph = clients(1)[0]
    back = Graph.from_pyg(graph.to_pyg())
    for name in ("x", "edges", "y", "train", "val", "test"):
        assert torch.equal(getattr(back, name), getattr(graph, name))


def test_pyg_data_without_labels_is_a_graph_to_predict_and_without_edges_none() -> None:
    graph = Graph.from_pyg(Data(x=torch.ones(3, 2), edge_index=torch.zeros(2, 0)))
    assert graph.y.tolist() == [UNKNOWN] * 3
    with pytest.raises(GraphError, match="no `edge_index`"):
        Graph.from_pyg(Data(x=torch.ones(3, 2)))


X, EDGES, Y = torch.zeros(4, 2), torch.tensor([[0, 1], [1, 2]]), torch.zeros(4).long()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"x": torch.tensor([[0.0, float("nan")]] * 4)}, "feature 1 of node 0 is nan"),
        ({"x": torch.zeros(0, 2), "y": torch.zeros(0).long()}, "edges name nodes"),
        ({"y": torch.zeros(3).long()}, r"labels have shape \(3,\), expected \(4,\)"),
        ({"y": torch.full((4,), -2)}, "smallest label is -2"),
        ({"edges": torch.tensor([[0], [4]])}, "number the nodes from zero"),
        ({"edges": torch.tensor([0, 4])}, "expected \\(2, number of edges\\)"),
        ({"train": none(3)}, "mask `train` has shape"),
        ({"train": ~none(4), "val": ~none(4)}, "overlap"),
        ({"train": ~none(4), "y": torch.full((4,), -1)}, "without a label"),
    ],
)
def test_bad_graphs_are_refused_with_the_reason(change: dict[str, Any], says: str) -> None:
    parts = {"x": X, "edges": EDGES, "y": Y} | change
    with pytest.raises(GraphError, match=says):
        Graph.build(**parts)


WEIGHTS = torch.tensor([2.0, 3.0, 0.5, 9.0])
ONE_WAY = torch.tensor([[0, 2, 1, 3], [1, 1, 0, 3]])  # 0 - 1 given both ways, a loop at 3


def weighted(directed: bool = False) -> Graph:
    return Graph.build(X, ONE_WAY, Y, weights=WEIGHTS, directed=directed)


def test_weights_are_means_and_go_with_their_edges() -> None:
    both, kept = weighted(), weighted(directed=True)
    assert both.edges.t().tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert both.weights is not None
    assert both.weights.tolist() == [1.25, 1.25, 3.0, 3.0]  # 0 - 1 is given as 2 and as 0.5
    assert kept.edges.t().tolist() == [[0, 1], [1, 0], [2, 1]]
    assert kept.weights is not None
    assert kept.weights.tolist() == [2.0, 0.5, 3.0]
    again = Graph.build(X, both.edges, Y, weights=both.weights)
    assert again.fingerprint == both.fingerprint


def test_a_graph_without_weights_has_the_fingerprint_it_had() -> None:
    """As versions before weights computed it."""
    plain = Graph.build(X, ONE_WAY, Y)
    sha = hashlib.sha256()
    for part in (plain.x, plain.edges, plain.y, plain.train, plain.val, plain.test):
        sha.update(repr(tuple(part.shape)).encode() + part.numpy().tobytes())
    assert plain.fingerprint == sha.hexdigest()
    prints = {plain.fingerprint, weighted().fingerprint, weighted(directed=True).fingerprint}
    assert len(prints | {Graph.build(X, ONE_WAY, Y, directed=True).fingerprint}) == 4


@pytest.mark.parametrize("directed", [False, True])
def test_weights_and_directions_survive_pyg_and_subgraphs(directed: bool) -> None:
    graph = weighted(directed)
    back = Graph.from_pyg(graph.to_pyg(), directed=directed)
    assert back.fingerprint == graph.fingerprint
    assert graph.to("cpu").fingerprint == graph.fingerprint
    assert int(graph.split.max()) < 3  # is kept with the graph from now on, and no part of it
    assert graph.to("cpu:0").fingerprint == graph.fingerprint
    part = graph.induced(torch.tensor([2, 1]))
    assert part.weights is not None
    assert part.directed == directed
    assert part.edges.t().tolist() == ([[0, 1]] if directed else [[0, 1], [1, 0]])
    assert part.weights.tolist() == [3.0] * (1 if directed else 2)
    (split, other) = induced(graph, [[2, 1], [0, 3]])
    assert split.fingerprint == part.fingerprint
    assert other.weights is not None
    assert len(other.weights) == 0


def test_nothing_of_pygs_edges_is_dropped_silently() -> None:
    one_way = Data(x=X, edge_index=ONE_WAY[:, :2], y=Y)
    with pytest.raises(GraphError, match=r"directed=True\) to keep directions"):
        Graph.from_pyg(one_way)
    assert Graph.from_pyg(one_way, directed=True).edges.shape[1] == 2
    assert Graph.from_pyg(one_way, directed=False).edges.shape[1] == 4
    both = torch.tensor([[0, 1], [1, 0]])
    uneven = Data(x=X, edge_index=both, y=Y, edge_weight=torch.tensor([1.0, 2.0]))
    with pytest.raises(GraphError, match="weigh more one way"):
        Graph.from_pyg(uneven)
    plain = Data(x=X, edge_index=both, y=Y, edge_attr=torch.ones(2, 3))
    with pytest.raises(GraphError, match="`edge_attr`, which no model here reads"):
        Graph.from_pyg(plain)
    plain.edge_attr = None
    assert Graph.from_pyg(plain).weights is None


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ([1.0, -1.0, 1.0, 1.0], "from node 1 to node 2 weighs -1.0"),
        ([1.0, math.nan, 1.0, 1.0], "weighs nan: weights must be finite and above 0"),
        ([1.0], "edge weights have shape"),
    ],
)
def test_weights_that_no_model_can_use_are_refused(weights: list[float], says: str) -> None:
    with pytest.raises(GraphError, match=says):
        Graph.build(X, ONE_WAY, Y, weights=torch.tensor(weights))


def labelled(**parts: Any) -> Data:
    base = {"x": torch.eye(3), "edge_index": torch.tensor([[0, 1], [1, 0]]), "y": torch.arange(3)}
    return Data(**{**base, **parts})


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        (
            {"y": torch.tensor([0.5, 1.7, 2.0])},
            "labels are of type float32, and no model here pred",
        ),
        ({"y": torch.tensor([[1, 0], [0, 1], [1, 1]])}, r"shape \(3, 2\), expected \(3,\)"),
        ({"edge_attr": torch.ones(2, 4)}, "has `edge_attr`, which no model here reads"),
        ({"train_mask": torch.ones(3, 10).bool()}, r"mask `train` has shape \(3, 10\), expected"),
    ],
)
def test_what_a_graph_cannot_represent_is_refused(parts: dict[str, Tensor], says: str) -> None:
    with pytest.raises(GraphError, match=says):
        Graph.from_pyg(labelled(**parts))


def test_a_column_of_labels_is_one_a_node() -> None:
    assert Graph.from_pyg(labelled(y=torch.arange(3)[:, None])).y.tolist() == [0, 1, 2]


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_sparse_features_become_dense(layout: str) -> None:
    graph = Graph.from_pyg(labelled(x=getattr(torch.eye(3), layout)()))
    assert graph.x.equal(torch.eye(3))
