import weakref
from collections.abc import Iterator, Mapping

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pace.merging.batches import stacks
from pace.merging.carrier import Carrier, compress, pack, truncate, unpack
from pace.merging.consensus import consensus, consensus_of_stacks
from pace.merging.moments import EPS


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
    drawn = draw(3, 0)
    updates = [{name: value.double() for name, value in update.items()} for update, _ in drawn]
    messages = [pack(compress(update, rank)) for update in updates]
    (together,), (weights,) = stacks(messages, 3), stacks((moment for _, moment in drawn), 3)
    before = [{name: value.clone() for name, value in each.items()} for each in messages]
    stacked = {name: value.clone() for name, value in together.items()}
    consensus(
        (unpack(each, updates[0]), moment)
        for each, (_, moment) in zip(messages, drawn, strict=True)
    )
    consensus_of_stacks([(unpack(together, updates[0]), weights)])
    torch.testing.assert_close(messages, before, rtol=0, atol=0)
    torch.testing.assert_close(together, stacked, rtol=0, atol=0)


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


def test_uploads_are_let_go_one_by_one() -> None:
    """Memory does not grow with the clients: an upload is gone before the next but one is made."""
    alive: list[weakref.ref[Tensor]] = []

    def stream() -> Iterator[tuple[dict[str, Tensor], dict[str, Tensor]]]:
        for seed in range(6):
            upload = draw(1, seed)[0]
            alive.append(weakref.ref(upload[0]["0.weight"]))
            yield upload
            del upload
            assert sum(ref() is not None for ref in alive) <= 1

    consensus(stream())
    assert len(alive) == 6


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_the_clamp_keeps_division_finite(scale: float) -> None:
    uploads = [({"0.weight": scale * torch.ones(5, 7)}, {"0.weight": torch.zeros(7)})]
    torch.testing.assert_close(
        consensus(uploads)["0.weight"], scale * torch.ones(5, 7, dtype=torch.float64)
    )


@pytest.mark.parametrize("rank", [3, None])
def test_stacked_uploads_give_what_they_give_one_by_one(rank: int | None) -> None:
    generator = torch.Generator().manual_seed(8)
    uploads = []
    for _ in range(7):
        update = {
            "w": torch.randn(12, 30, generator=generator),
            "b": torch.randn(12, generator=generator),
        }
        moment = torch.rand(30, generator=generator)
        uploads.append(pack(compress(update, rank)) | {"w/m": moment})

    def pair(message: Mapping[str, Tensor]) -> tuple[Carrier, dict[str, Tensor]]:
        return unpack(message, ("w", "b")), {"w": message["w/m"]}

    found = consensus_of_stacks(map(pair, stacks(uploads, 3)))
    torch.testing.assert_close(found, consensus(map(pair, uploads)), rtol=1e-12, atol=1e-12)


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
