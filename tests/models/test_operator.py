import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from pace.graph import Graph
from pace.models.operator import (
    SPARSE_BELOW,
    Operator,
    Product,
    csr_array,
    csr_tensor,
    density,
    multiplied,
    multiplier,
)
from pace.models.propagation import propagation


@given(
    st.integers(1, 12), st.integers(1, 12), st.integers(1, 5), st.floats(0, 1), st.integers(0, 99)
)
@settings(max_examples=60)
def test_product_and_gradient_are_the_dense_ones(
    rows: int, columns: int, width: int, filled: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.rand(rows, columns, generator=generator)
    matrix = matrix * (torch.rand(rows, columns, generator=generator) < filled)
    dense = torch.rand(columns, width, generator=generator, requires_grad=True)
    weight = torch.rand(rows, width, generator=generator)
    operator = Operator.of(matrix)
    assert operator.is_sparse == (density(matrix) < SPARSE_BELOW)
    product = operator @ dense
    torch.testing.assert_close(product, matrix @ dense)
    (gradient,) = torch.autograd.grad((product * weight).sum(), dense)
    torch.testing.assert_close(gradient, matrix.t() @ weight)


@pytest.mark.parametrize("filled", [0.05, 0.9])
def test_rows_are_those_of_the_matrix(filled: float) -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.rand(20, 15, generator=generator)
    matrix = matrix * (torch.rand(20, 15, generator=generator) < filled)
    operator = Operator.of(matrix)
    mask = torch.rand(20, generator=generator) < 0.5
    assert torch.equal(operator[mask], matrix[mask])
    index = torch.tensor([3, 3, 0])
    assert torch.equal(operator[index], matrix[index])


def test_a_sparse_operator_survives_scipy() -> None:
    operator = Operator.of(torch.eye(10))
    assert (csr_array(operator.matrix).toarray() == torch.eye(10).numpy()).all()


@pytest.mark.parametrize(("columns", "bits"), [(2**31 - 1, 32), (2**31, 64), (2**31 + 9, 64)])
def test_a_matrix_too_wide_for_32_bits_keeps_its_columns(columns: int, bits: int) -> None:
    """An index of 32 bits would come back below zero, or as another column."""
    indices = np.array([7, columns - 1], dtype=np.int64)
    parts = (np.array([1.0, 2.0], dtype=np.float32), indices, np.array([0, 1, 2]))
    tensor = csr_tensor(sparse.csr_array(parts, shape=(2, columns)))
    assert tensor.col_indices().dtype == tensor.crow_indices().dtype == getattr(torch, f"int{bits}")
    assert Operator(tensor).active.tolist() == indices.tolist()
    again = csr_array(tensor)
    assert again.shape == (2, columns)
    assert again[[1], [columns - 1]].tolist() == [2.0]
    assert csr_array(Operator(tensor).rows(torch.tensor([1])).matrix).indices == [columns - 1]


@pytest.mark.parametrize("filled", [0.0, 0.1])
def test_weighted_sums_of_rows_are_the_product(filled: float) -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.rand(20, 15, generator=generator)
    matrix = matrix * (torch.rand(20, 15, generator=generator) < filled)
    dense = torch.rand(15, 4, generator=generator)
    sparse = Operator.of(matrix).matrix
    torch.testing.assert_close(multiplier(sparse)(dense), matrix @ dense)


@pytest.mark.parametrize("filled", [0.05, 0.9])
def test_a_product_is_kept_in_factors_where_that_is_cheaper(filled: float) -> None:
    generator = torch.Generator().manual_seed(0)
    left = torch.eye(40) + torch.eye(40).roll(1, 0)
    right = torch.rand(40, 50, generator=generator)
    right = right * (torch.rand(40, 50, generator=generator) < filled)
    product = multiplied(Operator.of(left), Operator.of(right))
    assert isinstance(product, Product) == (filled < 0.5)
    dense = torch.rand(50, 3, generator=generator, requires_grad=True)
    found = product @ dense
    torch.testing.assert_close(found, left @ right @ dense)
    weight = torch.rand(40, 3, generator=generator)
    (gradient,) = torch.autograd.grad((found * weight).sum(), dense)
    torch.testing.assert_close(gradient, (left @ right).t() @ weight)
    torch.testing.assert_close(product.back(weight), (left @ right).t() @ weight)
    rows, columns = torch.tensor([3, 0, 7]), torch.tensor([1, 30])
    torch.testing.assert_close(product[rows], (left @ right)[rows])
    part, chosen = product.rows(rows).columns(columns), dense.detach()[columns]
    torch.testing.assert_close(part @ chosen, (left @ right)[rows][:, columns] @ chosen)


@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (3, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_product_with_an_empty_matrix_is_zero(shape: tuple[int, int], dtype: torch.dtype) -> None:
    matrix = csr_tensor(sparse.csr_array(np.zeros(shape, dtype=str(dtype).removeprefix("torch."))))
    dense = torch.ones(shape[1], 2, dtype=dtype)
    assert torch.equal(multiplier(matrix)(dense), torch.zeros(shape[0], 2, dtype=dtype))
    out = torch.full((shape[0], 2), torch.nan, dtype=dtype)
    assert multiplier(matrix)(dense, out) is out
    assert not out.any()


def test_p_is_made_of_roots_that_are_rounded_once() -> None:
    """torch's float32 root of some degrees is not the nearest number; P is the same on every machine."""
    leaves = torch.arange(1, 60)  # of stars, one beside the other
    hubs = (leaves + 1).cumsum(0) - leaves - 1
    count = int((leaves + 1).sum())
    others = torch.ones(count, dtype=torch.bool).scatter(0, hubs, False).nonzero().flatten()
    edges = torch.stack([hubs.repeat_interleave(leaves), others])
    y = torch.zeros(count, dtype=torch.int64)
    graph = Graph.build(torch.ones(count, 1), edges, y)
    scale = 1 / (1 + leaves).double().sqrt().float()
    assert torch.equal(propagation(graph).matrix.to_dense().diagonal()[hubs], scale * scale)
