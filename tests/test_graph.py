import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import remove_self_loops, subgraph, to_undirected

from pace.errors import GraphError
from pace.graph import UNKNOWN, Graph, undirected
from pace.models.propagation import propagated_features, propagation
from tests.graphs import clients, none


@given(st.integers(1, 30), st.integers(0, 60), st.integers(0, 2**31))
@settings(max_examples=50)
def test_edges_are_made_undirected_as_pyg_does(nodes: int, count: int, seed: int) -> None:
    edges = torch.randint(nodes, (2, count), generator=torch.Generator().manual_seed(seed))
    theirs = to_undirected(remove_self_loops(edges)[0], num_nodes=nodes)
    assert torch.equal(undirected(edges, nodes), theirs)


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
    torch.testing.assert_close(propagated_features(graph)[everyone], expected)


def test_isolated_nodes_keep_their_own_message() -> None:
    graph = Graph.build(torch.eye(3), torch.tensor([[0], [1]]), torch.zeros(3))
    assert torch.equal(propagated_features(graph)[torch.tensor([2])], torch.eye(3)[2:])


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


X, EDGES, Y = torch.zeros(4, 2), torch.tensor([[0, 1], [1, 2]]), torch.zeros(4)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"x": torch.tensor([[0.0, float("nan")]] * 4)}, "feature 1 of node 0 is nan"),
        ({"x": torch.zeros(0, 2), "y": torch.zeros(0)}, "edges name nodes"),
        ({"y": torch.zeros(3)}, r"labels have shape \(3,\), expected \(4,\)"),
        ({"y": torch.full((4,), -2)}, "smallest label is -2"),
        ({"edges": torch.tensor([[0], [4]])}, "number the nodes from zero"),
        ({"edges": torch.tensor([0, 4])}, "expected \\(2, number of edges\\)"),
        ({"train": none(3)}, "mask `train` has shape"),
        ({"train": ~none(4), "val": ~none(4)}, "overlap"),
        ({"train": ~none(4), "y": torch.full((4,), -1)}, "without a label"),
    ],
)
def test_bad_graphs_are_refused_with_the_reason(change: dict[str, torch.Tensor], says: str) -> None:
    parts = {"x": X, "edges": EDGES, "y": Y} | change
    with pytest.raises(GraphError, match=says):
        Graph.build(**parts)
