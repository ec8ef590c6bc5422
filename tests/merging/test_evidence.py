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


@pytest.mark.fault(37)
def test_no_column_is_longer_than_its_evidence_allows() -> None:
    random = torch.Generator().manual_seed(0)
    correction = torch.randn(8, 200, generator=random)
    correction[:, 3] *= 1000
    share = torch.rand(200, generator=random).double() / 10
    factors = column_factors(correction, share)
    lengths = correction.double().norm(dim=0)
    allowed = LONGEST * lengths.median() * (share / ENOUGH).clamp_max(1)
    assert (factors >= 0).all()
    assert (factors <= 1).all()
    assert (lengths * factors <= allowed * (1 + 1e-12)).all()
    untouched = lengths <= allowed
    assert (factors[untouched] == 1).all()
    assert factors[3] < 1e-2


def test_what_nobody_sees_is_left_out_whole() -> None:
    factors = column_factors(torch.ones(2, 3), torch.tensor([0.0, 1.0, ENOUGH / 4]).double())
    assert factors.tolist() == pytest.approx([0.0, 1.0, 0.5])


def test_a_correction_of_nothing_stays() -> None:
    assert column_factors(torch.zeros(2, 3), torch.zeros(3).double()).tolist() == [1.0] * 3
