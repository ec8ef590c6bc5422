"""Rows of length one that travelled along edges, against the dense formula."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch import Tensor

from pace.graph import Graph
from pace.models import unit_rows as module
from pace.models.operator import csr_array
from pace.models.propagation import propagation
from pace.models.unit_rows import unit_rows


def graph_of(nodes: int, features: int, filled: float, seed: int) -> Graph:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(nodes, features, generator=generator)
    x *= torch.rand(nodes, features, generator=generator) < filled
    edges = torch.randint(nodes, (2, 2 * nodes), generator=generator)
    train = torch.rand(nodes, generator=generator) < 0.4
    return Graph.build(x, edges, torch.zeros(nodes).long(), train=train)


def dense(graph: Graph, hop: int) -> Tensor:
    """The definition, in float64."""
    rows = (graph.x.sign() * graph.x.abs().sqrt()).double()
    p = torch.from_numpy(csr_array(propagation(graph).matrix).toarray()).double()
    for _ in range(hop):
        rows = p @ rows
    lengths = rows.norm(dim=1, keepdim=True)
    return torch.where(lengths > 0, rows / lengths, 0.0)


@given(
    st.integers(1, 30), st.integers(1, 12), st.floats(0, 1), st.integers(0, 3), st.integers(0, 99)
)
@settings(max_examples=60, deadline=None)
def test_products_and_rows_are_those_of_the_dense_matrix(
    nodes: int, features: int, filled: float, hop: int, seed: int
) -> None:
    graph = graph_of(nodes, features, filled, seed)
    found, expected = unit_rows(graph, hop), dense(graph, hop)
    torch.testing.assert_close(
        found[graph.train].double(), expected[graph.train], atol=1e-5, rtol=1e-4
    )
    weights = torch.randn(features, 3, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(
        (found @ weights).double(), expected @ weights.double(), atol=1e-4, rtol=1e-4
    )


def test_rows_have_length_one_or_zero_and_blocks_do_not_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BLOCK", 7)
    graph = graph_of(40, 9, 0.1, 3)
    everyone = torch.ones(40, dtype=torch.bool)
    for hop in (0, 2):
        lengths = unit_rows(graph, hop)[everyone].norm(dim=1)
        assert ((lengths - 1).abs() < 1e-5).logical_or(lengths == 0).all()
        assert (lengths == 0).any() == (dense(graph, hop).norm(dim=1) == 0).any()


def test_rows_are_made_once_and_kept_with_the_graph() -> None:
    graph = graph_of(20, 5, 0.5, 1)
    assert unit_rows(graph, 2) is unit_rows(graph, 2)
    assert unit_rows(graph, 2) is not unit_rows(graph, 0)


@pytest.mark.parametrize("filled", [0.005, 1.0], ids=["sparse", "dense"])
def test_the_square_of_the_adjacency_matrix_of_a_hub_is_never_made(
    filled: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A star of 2,000 leaves: P P has four million entries, P itself six thousand."""
    nodes = 2001
    random = torch.Generator().manual_seed(1)
    x = torch.rand(nodes, 40, generator=random)
    x *= torch.rand(nodes, 40, generator=random) < filled
    edges = torch.stack([torch.zeros(nodes - 1, dtype=torch.int64), torch.arange(1, nodes)])
    graph = Graph.build(
        x, edges, torch.zeros(nodes).long(), train=torch.ones(nodes, dtype=torch.bool)
    )
    entries: list[int] = []
    plain = sparse.csr_array.__matmul__

    def counted(left: Any, right: Any) -> Any:
        product = plain(left, right)
        entries.append(getattr(product, "nnz", None) or product.size)
        return product

    monkeypatch.setattr(sparse.csr_array, "__matmul__", counted)
    found = unit_rows(graph, 2)[graph.train]
    assert entries
    assert max(entries) <= nodes * 40
    torch.testing.assert_close(found.double(), dense(graph, 2), atol=1e-5, rtol=1e-4)
