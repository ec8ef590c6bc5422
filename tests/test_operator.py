import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pace.operator import SPARSE_BELOW, Operator, csr_array, density


@given(
    st.integers(1, 12), st.integers(1, 12), st.integers(1, 5), st.floats(0, 1), st.integers(0, 99)
)
@settings(max_examples=60, deadline=None)
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
