"""Rows of length one that travelled along edges, against the dense formula."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch import Tensor

from pace.graph import Graph
from pace.models.operator import csr_array
from pace.models.propagation import propagation
from pace.models.unit_rows import COLUMNS, by_columns, multiplied_out, unit_rows


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
    module = import_module("pace.models.unit_rows")  # the room's door gives the function
    monkeypatch.setattr(module, "BLOCK", 7)
    monkeypatch.setattr(module, "COLUMNS", 4)
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
    few = unit_rows(graph, 2)[graph.train.nonzero().flatten()[:9]]
    torch.testing.assert_close(few, found[:9])
    assert not entries or max(entries) <= nodes * 40
    torch.testing.assert_close(found.double(), dense(graph, 2), atol=1e-5, rtol=1e-4)


def test_rows_by_columns_and_on_what_nodes_reach_are_the_same() -> None:
    """Which of the two is taken depends on the cost alone."""
    for filled in (0.05, 1.0):
        graph = graph_of(60, 70, filled, 5)
        rows = unit_rows(graph, 2)
        parts = rows.propagation, rows.features, 2
        whole = torch.cat(list(by_columns(*parts)), 1)
        for nodes in (torch.tensor([3]), torch.arange(60)):
            torch.testing.assert_close(
                multiplied_out(*parts, nodes), whole[nodes], atol=1e-6, rtol=1e-5
            )


def work(nodes: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Multiplications of all products with a sparse matrix, and the largest result, for hop 2."""
    random = torch.Generator().manual_seed(0)
    edges = torch.randint(0, nodes, (2, 10 * nodes), generator=random)
    x = torch.rand(nodes, 96, generator=random)
    labels, train = torch.zeros(nodes).long(), torch.rand(nodes, generator=random) < 0.2
    graph = Graph.build(x, edges, labels, train=train)
    counts, sizes = [0], [0]
    bag, times = torch.embedding_bag, sparse.csr_array.__matmul__

    def bagged(rows: Any, columns: Any, *more: Any, **named: Any) -> Any:
        counts.append(len(columns) * rows.shape[1])
        sizes.append(rows.numel())
        return bag(rows, columns, *more, **named)

    def multiplied(left: Any, right: Any) -> Any:
        product = times(left, right)
        counts.append(left.nnz * right.shape[1])
        sizes.append(getattr(product, "nnz", None) or product.size)
        return product

    with monkeypatch.context() as patch:
        patch.setattr(torch, "embedding_bag", bagged)
        patch.setattr(sparse.csr_array, "__matmul__", multiplied)
        unit_rows(graph, 2)[graph.train]
    return sum(counts), max(sizes)


def test_the_work_grows_as_the_nodes_do_and_no_product_is_of_all_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = 2_000, 8_000, 32_000
    operations, largest = zip(*(work(nodes, monkeypatch) for nodes in sizes), strict=True)
    for values in (operations, largest):
        exponent = np.polyfit(np.log(sizes), np.log(values), 1)[0]
        assert exponent <= 1.05
    assert largest[-1] <= sizes[-1] * COLUMNS < sizes[-1] * 96
