import weakref
from collections.abc import Iterable, Iterator, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pace.merging.carrier import BATCH, Carrier, LowRank, compress, truncate
from pace.merging.consensus import CLIENTS, Batch, mean, summed
from pace.merging.moments import EPS, Moments
from tests.batches import in_batches


def of_batches(batches: Iterable[Batch]) -> dict[str, Tensor]:
    return mean(summed(batches))


def consensus(pairs: Sequence[tuple[Carrier, Moments]]) -> dict[str, Tensor]:
    """Of clients one by one, read in batches of which the last may be short."""
    return of_batches(in_batches(pairs))


def draw(clients: int, seed: int) -> list[tuple[dict[str, Tensor], dict[str, Tensor]]]:
    generator = torch.Generator().manual_seed(seed)
    uploads = []
    for _ in range(clients):
        update = {
            "0.weight": torch.randn(5, 7, generator=generator),
            "0.bias": torch.randn(5, generator=generator),
        }
        moment = torch.rand(7, generator=generator) * 3
        uploads.append((update, {"0.weight": moment}))
    return uploads


@given(st.integers(1, 6), st.integers(0, 999))
@settings(max_examples=40)
def test_consensus_solves_the_papers_least_squares_problem(clients: int, seed: int) -> None:
    """argmin Σ_j w_j ‖(Δ - Δ_j) C_j^1/2‖², row by row as one stacked linear system for lstsq."""
    uploads = draw(clients, seed)
    roots = [((moment["0.weight"].double() + EPS) / clients).sqrt() for _, moment in uploads]
    system = torch.cat([torch.diag(root) for root in roots])  # (K in, in)
    for row in range(5):
        goal = torch.cat(
            [
                root * update["0.weight"][row].double()
                for root, (update, _) in zip(roots, uploads, strict=True)
            ]
        )
        solution = torch.linalg.lstsq(system, goal[:, None], driver="gelsd").solution.squeeze(1)
        torch.testing.assert_close(consensus(uploads)["0.weight"][row], solution)


@pytest.mark.parametrize("rank", [None, 2])
def test_updates_in_float64_stay_as_they_are(rank: int | None) -> None:
    """Sums are in float64 and in place: not in the place of what was given."""
    pairs = [
        (compress({name: value.double() for name, value in update.items()}, rank), moments)
        for update, moments in draw(3, 0)
    ]
    ((carriers, moments),) = in_batches(pairs)
    before = {name: tensors(value) for name, value in carriers.items()}
    copies = {name: [each.clone() for each in values] for name, values in before.items()}
    of_batches([(carriers, moments), (carriers, moments)])
    torch.testing.assert_close(before, copies, rtol=0, atol=0)


def tensors(value: LowRank | Tensor) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [value.left, value.right]


def test_equal_moments_give_the_plain_mean() -> None:
    uploads = [(update, {"0.weight": torch.full((7,), 2.5)}) for update, _ in draw(4, 0)]
    mean = torch.stack([update["0.weight"] for update, _ in uploads]).double().mean(0)
    torch.testing.assert_close(consensus(uploads)["0.weight"], mean)


def test_parameters_without_a_moment_take_the_plain_mean() -> None:
    uploads = draw(4, 1)
    mean = torch.stack([update["0.bias"] for update, _ in uploads]).double().mean(0)
    torch.testing.assert_close(consensus(uploads)["0.bias"], mean)


def test_a_column_nobody_activates_takes_the_plain_mean() -> None:
    uploads = draw(3, 2)
    for _, moment in uploads:
        moment["0.weight"][4] = 0
    mean = torch.stack([update["0.weight"][:, 4] for update, _ in uploads]).double().mean(0)
    torch.testing.assert_close(consensus(uploads)["0.weight"][:, 4], mean)


def test_a_column_one_client_activates_is_that_clients() -> None:
    uploads = draw(3, 3)
    for client, (_, moment) in enumerate(uploads):
        moment["0.weight"][2] = 1.0 if client == 1 else 0.0
    own = uploads[1][0]["0.weight"][:, 2].double()
    torch.testing.assert_close(consensus(uploads)["0.weight"][:, 2], own)


@pytest.mark.fault(26)
def test_the_order_of_clients_does_not_matter() -> None:
    uploads = draw(5, 4)
    torch.testing.assert_close(consensus(uploads), consensus(uploads[::-1]))


def test_a_single_client_is_its_own_consensus() -> None:
    uploads = draw(1, 5)
    torch.testing.assert_close(
        consensus(uploads)["0.weight"], uploads[0][0]["0.weight"].double(), rtol=1e-12, atol=0
    )


def test_batches_are_let_go_one_by_one() -> None:
    """Memory does not grow with the clients: a batch is gone before the next but one is made."""
    alive: list[weakref.ref[Tensor]] = []

    def stream() -> Iterator[Batch]:
        for seed in range(6):
            (batch,) = in_batches(draw(2, seed))
            weight = batch[0]["0.weight"]
            assert isinstance(weight, Tensor)
            alive.append(weakref.ref(weight))
            yield batch
            del batch, weight
            assert sum(ref() is not None for ref in alive) <= 1

    of_batches(stream())
    assert len(alive) == 6


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_the_clamp_keeps_division_finite(scale: float) -> None:
    uploads = [({"0.weight": scale * torch.ones(5, 7)}, {"0.weight": torch.zeros(7)})]
    torch.testing.assert_close(
        consensus(uploads)["0.weight"], scale * torch.ones(5, 7, dtype=torch.float64)
    )


@pytest.mark.parametrize("rank", [3, None])
def test_the_size_of_batches_does_not_matter(rank: int | None) -> None:
    pairs = [(compress(update, rank), moments) for update, moments in draw(BATCH + 6, 8)]
    together = of_batches(in_batches(pairs, len(pairs)))
    for size in (1, 3, BATCH):
        found = of_batches(in_batches(pairs, size))
        torch.testing.assert_close(found, together, rtol=1e-12, atol=1e-12)


def test_sums_of_parts_add_up_to_the_sum_of_all() -> None:
    """What makes the consensus fit for a server that sees sums only, or for a tree of servers."""
    pairs = draw(7, 9)
    whole = summed(in_batches(pairs))
    parts = [summed(in_batches(part)) for part in (pairs[:2], pairs[2:3], pairs[3:])]
    for name, value in whole.items():
        torch.testing.assert_close(value, torch.stack([part[name] for part in parts]).sum(0))
    assert float(whole[CLIENTS]) == 7


@pytest.mark.parametrize("clients", [1, 16, 37])
def test_factors_enter_as_the_update_they_stand_for(clients: int) -> None:
    generator = torch.Generator().manual_seed(6)
    carriers, dense = [], []
    for _ in range(clients):
        low = truncate(torch.randn(12, 30, generator=generator), 3)
        moment = {"w": torch.rand(30, generator=generator)}
        carriers.append(({"w": low}, moment))
        dense.append(({"w": low.left.double() @ low.right.double()}, moment))
    torch.testing.assert_close(consensus(carriers), consensus(dense))


def test_a_column_without_any_weight_in_a_sum_is_divided_by_no_zero() -> None:
    """A sealed sum is rounded: ε itself may be lost in it."""
    total = {"0.weight": torch.zeros(2, 3), "0.weight/m": torch.tensor([0.0, 3.0, 0.0])}
    shared = mean({**total, CLIENTS: torch.tensor([3.0])})
    assert torch.equal(shared["0.weight"], torch.zeros(2, 3))
