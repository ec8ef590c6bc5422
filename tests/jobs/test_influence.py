"""What the server's report says of each upload, by hand."""

import pytest
import torch

from pace.jobs.disclosure import influence
from pace.methods import FedAvg, Local, Pace
from pace.models.networks import GCN
from pace.protocol.federation import Federation
from pace.protocol.method import Message, Method
from pace.protocol.uploads import Messages
from pace_study.baselines.fedpub import FedPub

SMALL = GCN((2, 3))  # six weights in two columns, three biases


def agreed(method: Method) -> Federation:
    return Federation(SMALL, method)


def upload(length: float, moments: list[float]) -> Message:
    """An update with one number that is not zero, and its moments."""
    bias = torch.tensor([length, 0.0, 0.0])
    return {"0.weight": torch.zeros(3, 2), "0.bias": bias, "0.weight/m": torch.tensor(moments)}


def test_a_share_is_the_weight_in_a_column_averaged_over_all_numbers() -> None:
    found = influence(Messages([upload(1, [2, 0]), upload(1, [1, 1])]), agreed(Pace(rank=None)))
    first = (3 * 2 / 3 + 3 * 0 + 3 * 1 / 2) / 9  # a column has three numbers, the bias three
    assert [each.share for each in found] == pytest.approx([first, 1 - first])
    assert [each.norm for each in found] == pytest.approx([1, 1])
    assert not any(each.flags for each in found)


def test_updates_far_from_the_median_and_large_shares_are_flagged() -> None:
    lengths, loner = [1.0, 1.1, 0.9, 10.0, 0.1], [2.0, 0.0]
    found = influence(Messages(upload(each, [1, 1]) for each in lengths), agreed(Pace(rank=None)))
    assert [len(each.flags) for each in found] == [0, 0, 0, 1, 1]
    assert "10 times the median" in found[3].flags[0]
    assert "0.1 times the median" in found[4].flags[0]
    quiet = [upload(1, [0, 0]) for _ in range(9)]
    (heavy, *others) = influence(Messages([upload(1, loner), *quiet]), agreed(Pace(rank=None)))
    assert heavy.share == pytest.approx((3 * 1 + 3 / 10 + 3 / 10) / 9)
    assert "times an equal share" in heavy.flags[0]
    assert not any(each.flags for each in others)


def test_shares_of_an_average_are_those_of_nodes() -> None:
    federation = agreed(FedAvg())
    messages = [{**federation.start, "nodes": torch.tensor([nodes])} for nodes in (10.0, 30.0)]
    found = influence(Messages(messages), federation)
    assert [each.share for each in found] == [0.25, 0.75]
    assert [each.norm for each in found] == [
        None,
        None,
    ]  # nobody moved: there is no median to speak of


@pytest.mark.parametrize("method", [Local(), FedPub()])
def test_a_method_without_one_weight_a_client_has_no_shares(method: Method) -> None:
    found = influence(Messages([{}, {}]), agreed(method))
    assert [(each.share, each.norm, each.flags) for each in found] == [(None, None, ())] * 2
