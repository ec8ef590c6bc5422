"""A correction goes as far as the receiver's own nodes bear it out."""

import pytest
import torch

from pace.merging.correction import ENOUGH, LONGEST, column_factors, seen


def test_seen_is_the_share_of_nodes_with_something_in_a_column() -> None:
    rows = torch.tensor([[1.0, 0.0, -2.0], [0.5, 0.0, 0.0]])
    assert seen(rows).tolist() == [1.0, 0.0, 0.5]
    several = torch.stack([rows, torch.zeros(2, 3)], 1)  # two rows a node
    assert seen(several).tolist() == [1.0, 0.0, 0.5]
    assert seen(torch.zeros(0, 3)).tolist() == [0.0] * 3


def drawn() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A correction with one column of a thousand times the others', an own update, and who is seen."""
    random = torch.Generator().manual_seed(0)
    correction, own = torch.randn(2, 8, 200, generator=random)
    correction[:, 3] *= 1000
    return correction, own, torch.rand(200, generator=random).double() / 10


@pytest.mark.fault(37)
def test_no_column_is_longer_than_its_evidence_allows() -> None:
    correction, own, share = drawn()
    factors = column_factors(correction, own, share)
    lengths = correction.double().norm(dim=0)
    allowed = LONGEST * own.double().norm(dim=0).median() * (share / ENOUGH).clamp_max(1)
    assert (factors >= 0).all()
    assert (factors <= 1).all()
    assert (lengths * factors <= allowed * (1 + 1e-12)).all()
    untouched = lengths <= allowed
    assert (factors[untouched] == 1).all()
    assert factors[3] < 1e-2


@pytest.mark.fault(37)
def test_a_liar_cannot_raise_the_limit() -> None:
    """A dead unit with long entries in every column used to raise the median that was the limit."""
    correction, own, share = drawn()
    with_dead_unit = correction.clone()
    with_dead_unit[0] = -1e3
    before, after = (
        column_factors(each, own, share) * each.double().norm(dim=0)
        for each in (correction, with_dead_unit)
    )
    assert float(after.max()) <= LONGEST * float(own.double().norm(dim=0).median()) * (1 + 1e-12)
    assert float(after[3]) <= float(before[3]) * (1 + 1e-12)


def test_what_nobody_sees_is_left_out_whole() -> None:
    own = torch.full((2, 3), 1 / LONGEST)
    share = torch.tensor([0.0, 1.0, ENOUGH / 4]).double()
    assert column_factors(torch.ones(2, 3), own, share).tolist() == pytest.approx([0.0, 1.0, 0.25])


def test_a_correction_of_nothing_stays_and_who_learnt_nothing_takes_nothing() -> None:
    nothing, share = torch.zeros(2, 3), torch.ones(3).double()
    assert column_factors(nothing, nothing, share).tolist() == [1.0] * 3
    assert column_factors(torch.ones(2, 3), nothing, share).tolist() == [0.0] * 3


def test_columns_that_the_receiver_does_not_see_are_not_among_the_usual() -> None:
    """Weight decay alone moves them: they say nothing about how long an update is here."""
    own = torch.tensor([[1.0, 1.0, 90.0, 90.0, 90.0]])
    share = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0]).double()
    factors = column_factors(torch.full((1, 5), 10 * LONGEST), own, share)
    assert factors.tolist() == pytest.approx([0.1, 0.1, 0.0, 0.0, 0.0])
