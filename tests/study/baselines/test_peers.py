"""Peers by their moments, and the consensus of a receiver's peers."""

import pytest
import torch
from torch import Tensor

from pace.merging.carrier import Carrier, compress, dense
from pace.merging.consensus import mean, summed
from pace.merging.moments import EPS, Moments
from pace_study.baselines.duo import peer_consensus, peer_weights
from tests.batches import in_batches

SHAPES = {"0.weight": (16, 30), "0.bias": (16,), "1.weight": (4, 16), "1.bias": (4,)}


def uploads(count: int, rank: int | None = 3) -> list[tuple[Carrier, Moments]]:
    generator = torch.Generator().manual_seed(count)
    made: list[tuple[Carrier, Moments]] = []
    for _ in range(count):
        update = {
            name: torch.randn(shape, generator=generator).double() for name, shape in SHAPES.items()
        }
        moments = {
            name: torch.rand(shape[1], generator=generator).double()
            for name, shape in SHAPES.items()
            if len(shape) == 2
        }
        made.append((compress(update, rank), moments))
    return made


def test_alike_is_the_softmax_of_cosines_over_the_others() -> None:
    moments = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    found = peer_weights(moments, sharpness=2.0, largest=1.0)
    e = torch.tensor(2.0).double().exp()
    expected = torch.tensor([[0, e, 1], [e, 0, 1], [1, 1, 0]]).double()
    torch.testing.assert_close(found, expected / expected.sum(1, keepdim=True))


def test_without_sharpness_the_others_weigh_alike() -> None:
    found = peer_weights(
        torch.rand(4, 5, generator=torch.Generator().manual_seed(0)), sharpness=0.0
    )
    torch.testing.assert_close(found, (1 - torch.eye(4).double()) / 3)


@pytest.mark.parametrize("count", [3, 4, 9])
def test_no_peer_has_more_than_half_and_the_order_of_peers_stays(count: int) -> None:
    generator = torch.Generator().manual_seed(count)
    moments = torch.rand(count, 5, generator=generator)
    moments[1] = moments[0] * 1.001  # two clients all but peer_weights
    free, capped = peer_weights(moments, 50.0, largest=1.0), peer_weights(moments, 50.0)
    torch.testing.assert_close(capped.sum(1), torch.ones(count).double())
    assert free.max() > 0.6
    assert capped.max() <= 0.5 + 1e-12
    assert (capped >= 0).all()
    assert not capped.diagonal().any()
    mild = free.amax(1) <= 0.5
    assert torch.equal(capped[mild], free[mild])
    for before, after in zip(free, capped, strict=True):
        order = before.argsort()
        assert (after[order].diff() >= -1e-12).all()


def test_of_two_clients_each_is_the_others_only_peer() -> None:
    assert peer_weights(torch.rand(2, 5)).tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_alike_of_one_client_and_of_clients_without_moments() -> None:
    assert peer_weights(torch.rand(1, 5)).tolist() == [[1.0]]
    torch.testing.assert_close(
        peer_weights(torch.zeros(3, 5)), (1 - torch.eye(3, dtype=torch.float64)) / 2
    )


@pytest.mark.parametrize("count", [1, 5, 19])
@pytest.mark.parametrize("rank", [3, None])
def test_equal_weights_give_the_consensus(count: int, rank: int | None) -> None:
    made = uploads(count, rank)
    (view,) = peer_consensus(
        in_batches(made), torch.full((1, count), 1 / count, dtype=torch.float64)
    )
    for name, value in mean(summed(in_batches(made))).items():
        torch.testing.assert_close(view[name], value, rtol=1e-9, atol=1e-12)


def test_a_view_solves_the_weighted_least_squares_problem() -> None:
    """Column by column: the least Σ_j w_ij m_jc ‖δ - Δ_jc‖² over δ, by a general solver."""
    made, count = uploads(6), 6
    weights = torch.rand(2, count, generator=torch.Generator().manual_seed(1)).double()
    weights /= weights.sum(1, keepdim=True)
    for row, view in zip(weights, peer_consensus(in_batches(made), weights), strict=True):
        column = 7
        scale = torch.stack([moments["0.weight"][column] + EPS for _, moments in made])
        roots = (row * scale).sqrt()[:, None]
        targets: Tensor = torch.stack([dense(update)["0.weight"][:, column] for update, _ in made])
        best = torch.linalg.lstsq(roots, roots * targets).solution[0]
        torch.testing.assert_close(view["0.weight"][:, column], best)
        plain = sum(w * dense(update)["0.bias"] for w, (update, _) in zip(row, made, strict=True))
        torch.testing.assert_close(view["0.bias"], plain)
