"""Rows that hold neighbours apart, and rows of known labels, against dense formulas."""

import pytest
import torch
from torch import Tensor

from pace.graph import Graph
from pace.models.unit_rows import label_rows, neighbourhood_rows

CLASSES = 3


def random_graph(directed: bool = False, nodes: int = 40, features: int = 70) -> Graph:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(nodes, features, generator=generator)
    x[torch.rand(x.shape, generator=generator) < 0.5] = 0
    x[5] = 0  # a node without features
    edges = torch.randint(1, nodes, (2, 3 * nodes), generator=generator)  # node 0 has no neighbour
    edges = edges[:, edges[0] != edges[1]]
    y = torch.randint(CLASSES, (nodes,), generator=generator)
    masks = torch.arange(nodes) % 3
    return Graph.build(
        x, edges, y, train=masks == 0, val=masks == 1, test=masks == 2, directed=directed
    )


def adjacency(graph: Graph) -> Tensor:
    """A[v, u] = 1 where an edge goes from u to v."""
    dense = torch.zeros(graph.nodes, graph.nodes)
    dense[graph.edges[1], graph.edges[0]] = 1
    return dense


def plain_rows(graph: Graph) -> Tensor:
    """unit([h | Mh | MMh | degree]), as the module's docstring writes it."""
    root = graph.x.sign() * graph.x.abs().sqrt()
    own = root / root.norm(dim=1, keepdim=True).clamp_min(1e-12)
    count = adjacency(graph).sum(1, keepdim=True)
    mean = adjacency(graph) / count.clamp_min(1)
    log = torch.log(1 + count)
    degree = torch.cat([log / 5, log**2 / 5, 1 / (5 * count.clamp_min(1).sqrt()), 0.2 + 0 * log], 1)
    rows = torch.cat([own, mean @ own, mean @ mean @ own, degree], 1)
    lengths: Tensor = rows.norm(dim=1, keepdim=True)
    return rows / lengths


@pytest.mark.parametrize("directed", [False, True])
def test_neighbourhood_rows_and_their_products_are_the_formula(directed: bool) -> None:
    graph = random_graph(directed)
    rows, plain = neighbourhood_rows(graph), plain_rows(graph)
    torch.testing.assert_close(rows[graph.train], plain[graph.train])
    torch.testing.assert_close(rows[torch.arange(graph.nodes)], plain)
    weights = torch.randn(plain.shape[1], 4, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(rows @ weights, plain @ weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("directed", [False, True])
def test_label_rows_count_ways_that_do_not_return(directed: bool) -> None:
    """By walking every way of one and two steps."""
    graph = random_graph(directed)
    rows = label_rows(graph, graph.train, CLASSES)
    edges = adjacency(graph)
    for node in range(graph.nodes):
        near = torch.zeros(CLASSES)
        far = torch.zeros(CLASSES)
        for first in edges[node].nonzero().flatten().tolist():
            if graph.train[first]:
                near[graph.y[first]] += 1
            for second in edges[first].nonzero().flatten().tolist():
                if second != node and graph.train[second]:
                    far[graph.y[second]] += 1
        expected = [
            part
            for sums in (near, far)
            for part in (sums / sums.sum().clamp_min(1), sums.sum()[None].log1p() / 5)
        ]
        torch.testing.assert_close(rows[node], torch.cat([*expected, torch.full((2,), 0.2)]))


def test_a_nodes_own_label_is_never_among_its_columns() -> None:
    """Change one node's label: its own row stays, whatever its neighbours' rows do."""
    graph = random_graph()
    known = graph.train | graph.val
    before = label_rows(graph, known, CLASSES)
    for node in known.nonzero().flatten()[:10].tolist():
        y = graph.y.clone()
        y[node] = (y[node] + 1) % CLASSES
        other = Graph(graph.x, graph.edges, y, graph.train, graph.val, graph.test)
        torch.testing.assert_close(label_rows(other, known, CLASSES)[node], before[node])


def test_labels_that_are_not_known_are_not_read() -> None:
    graph = random_graph()
    y = torch.where(graph.train, graph.y, (graph.y + 1) % CLASSES)
    other = Graph(graph.x, graph.edges, y, graph.train, graph.val, graph.test)
    torch.testing.assert_close(
        label_rows(other, graph.train, CLASSES), label_rows(graph, graph.train, CLASSES)
    )
