import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pace.merging.carrier import LowRank, compress, dense, pack, truncate, unpack


@given(st.integers(2, 40), st.integers(2, 40), st.integers(1, 8), st.integers(0, 999))
@settings(max_examples=60)
def test_the_carrier_is_the_best_rank_r_approximation(
    rows: int, columns: int, rank: int, seed: int
) -> None:
    """Eckart-Young: the error is the tail of the singular values."""
    matrix = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    if min(rows, columns) <= rank:
        assert compress({"w": matrix}, rank)["w"] is matrix
        return
    found = truncate(matrix, rank)
    left, values, right = torch.linalg.svd(matrix.double(), full_matrices=False)
    best = left[:, :rank] * values[:rank] @ right[:rank]
    tail = values[rank:].square().sum().sqrt()
    error = (matrix.double() - found.dense().double()).norm()
    assert abs(error - tail) < 1e-5 * values[0]
    gap = values[rank - 1] - values[rank]
    if gap > 1e-3 * values[0]:  # otherwise the best approximation is not unique
        torch.testing.assert_close(found.dense().double(), best, rtol=0, atol=1e-4)
    assert found.left.shape == (rows, rank)
    assert found.right.shape == (rank, columns)
    torch.testing.assert_close(found.left.t() @ found.left, torch.eye(rank), rtol=0, atol=1e-4)


def test_a_matrix_of_lower_rank_comes_back_exactly() -> None:
    generator = torch.Generator().manual_seed(0)
    low = torch.randn(30, 3, generator=generator) @ torch.randn(3, 50, generator=generator)
    torch.testing.assert_close(truncate(low, 6).dense(), low, rtol=1e-4, atol=1e-4)
    assert not truncate(torch.zeros(30, 50), 6).dense().any()


@pytest.mark.parametrize("shape", [(6, 100), (100, 6), (3, 64), (64,), (2, 3, 10)])
def test_what_cannot_exceed_rank_six_stays_dense(shape: tuple[int, ...]) -> None:
    value = torch.ones(shape)
    assert compress({"w": value})["w"] is value


def test_rank_none_sends_everything_dense() -> None:
    value = torch.ones(64, 100)
    assert compress({"w": value}, None)["w"] is value


def test_a_carrier_survives_being_a_message() -> None:
    update = {"0.weight": torch.randn(20, 30), "0.bias": torch.randn(20)}
    carrier = compress(update)
    message = pack(carrier)
    assert list(message) == ["0.weight/L", "0.weight/R", "0.bias"]
    back = unpack(message, update)
    assert isinstance(back["0.weight"], LowRank)
    for name, value in dense(carrier).items():
        assert torch.equal(dense(back)[name], value)
