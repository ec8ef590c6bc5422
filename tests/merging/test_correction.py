import pytest
import torch
from torch import Tensor

from pace.merging.carrier import LowRank, compress, dense, pack, truncate, unbatched, unpack
from pace.merging.consensus import mean, summed
from pace.merging.correction import apply, correction, corrections, leading
from pace.params import add, subtract
from tests.batches import in_batches


def model(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "0.weight": torch.randn(16, 40, generator=generator),
        "0.bias": torch.randn(16, generator=generator),
    }


def test_the_correction_is_the_rank_six_part_of_the_difference() -> None:
    shared, own = model(1), compress(model(2))
    found = dense(correction(shared, own))
    gap = subtract(shared, dense(own))
    left, values, right = torch.linalg.svd(gap["0.weight"], full_matrices=False)
    best = left[:, :6] * values[:6] @ right[:6]
    torch.testing.assert_close(found["0.weight"], best, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(found["0.bias"], gap["0.bias"])


def test_a_single_client_is_sent_a_zero_correction() -> None:
    own = compress(model(3))
    shared = mean(summed(in_batches([(dense(own), {"0.weight": torch.ones(40)})])))
    for value in dense(correction(shared, own)).values():
        torch.testing.assert_close(value, torch.zeros_like(value), rtol=0, atol=1e-6)


def test_external_is_local_plus_the_correction() -> None:
    local, sent = model(4), correction(model(5), compress(model(6)))
    external = apply(local, sent)
    for name, value in add(local, dense(sent)).items():
        assert torch.equal(external[name], value)


def test_at_full_rank_every_receiver_reaches_the_consensus() -> None:
    """W_L + (Δ - Δ_i) = W_0 + Δ when nothing is compressed."""
    start, update, shared = model(7), model(8), model(9)
    external = apply(add(start, update), correction(shared, update, rank=None))
    torch.testing.assert_close(external, add(start, shared), rtol=1e-5, atol=1e-5)


def low_rank(shape: tuple[int, int], seed: int, rank: int = 6) -> LowRank:
    generator = torch.Generator().manual_seed(seed)
    return truncate(torch.randn(shape, generator=generator, dtype=torch.float64), rank)


@pytest.mark.parametrize("shape", [(64, 300), (300, 64), (7, 64), (64, 65)])
def test_corrections_are_the_truncated_svd_to_many_digits(shape: tuple[int, int]) -> None:
    """A decaying spectrum, as trained updates have; several batches, the last one short."""
    generator = torch.Generator().manual_seed(0)
    left, values, right = torch.linalg.svd(
        torch.randn(shape, generator=generator, dtype=torch.float64), full_matrices=False
    )
    shared = left * values * 0.8 ** torch.arange(len(values)) @ right
    owns = [low_rank(shape, seed) for seed in range(35)]
    batches = in_batches([({"w": own}, {}) for own in owns], 16)
    sent = corrections({"w": shared}, (carriers for carriers, _ in batches))
    found = [unpack(own, "w")["w"] for batch in sent for own in unbatched(pack(batch))]
    assert len(found) == len(owns)
    for own, factors in zip(owns, found, strict=True):
        left, values, right = torch.linalg.svd(shared - own.dense(), full_matrices=False)
        best = left[:, :6] * values[:6] @ right[:6]
        assert isinstance(factors, LowRank)
        assert (factors.dense() - best).norm() <= 1e-6 * best.norm()
        eye = torch.eye(6, dtype=torch.float64)
        torch.testing.assert_close(factors.left.t() @ factors.left, eye)


def grams_with_start(many: int, decay: float) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    wide = torch.randn(many, 40, 90, generator=generator, dtype=torch.float64)
    values = decay ** torch.arange(40, dtype=torch.float64)
    grams = (wide * values[:, None]) @ (wide * values[:, None]).mT
    return grams, torch.randn(many, 40, 12, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("decay", [0.5, 0.8, 0.95, 0.999])
def test_leading_eigenvectors_are_lapacks_whatever_the_spectrum(decay: float) -> None:
    """From a gap after one round to none at all, where every eigenvector is computed."""
    grams, start = grams_with_start(9, decay)
    found = leading(grams, start, 6)
    whole = torch.linalg.eigh(grams).eigenvectors[..., -6:]
    torch.testing.assert_close(found @ found.mT, whole @ whole.mT, rtol=0, atol=1e-8)
    values = (found.mT @ grams @ found).diagonal(dim1=-2, dim2=-1)
    assert (values[:, :-1] >= values[:, 1:] * (1 - 1e-12)).all()


def test_an_easy_matrix_gets_the_same_answer_beside_hard_ones() -> None:
    easy, start = grams_with_start(4, 0.5)
    hard, _ = grams_with_start(4, 0.999)
    hard[1] = torch.eye(40, dtype=torch.float64)  # no gap at all
    alone = leading(easy, start, 6)
    together = leading(torch.cat([hard, easy]), torch.cat([start, start]), 6)[4:]
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


def test_a_matrix_of_zeros_has_orthonormal_eigenvectors_too() -> None:
    found = leading(torch.zeros(2, 40, 40).double(), torch.zeros(2, 40, 12).double(), 6)
    eye = torch.eye(6, dtype=torch.float64).expand(2, -1, -1)
    torch.testing.assert_close(found.mT @ found, eye)


def test_directions_that_the_search_does_not_begin_near_are_found() -> None:
    """What the others know stands in rows and columns that are zero in the receiver's own update."""
    own, theirs = torch.zeros(2, 64, 200, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    own[8:14, :100] = torch.randn(6, 100, generator=generator, dtype=torch.float64)
    theirs[20:26, 100:] = 5 * torch.randn(6, 100, generator=generator, dtype=torch.float64)
    shared = (own + theirs) / 2
    sent = dense(correction({"w": shared}, {"w": truncate(own, 6)}))["w"]
    torch.testing.assert_close(sent, theirs / 2)


def test_without_a_gap_in_the_spectrum_the_error_is_still_the_least() -> None:
    shared = torch.eye(64, 100, dtype=torch.float64)
    own = low_rank((64, 100), 1)
    sent = correction({"w": shared}, {"w": own})["w"]
    assert isinstance(sent, LowRank)
    gap = shared - own.dense()
    least = torch.linalg.svdvals(gap)[6:].norm()
    assert (gap - sent.dense()).norm() <= least * (1 + 1e-9)
