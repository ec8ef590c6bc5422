"""Methods whose server needs only a sum: the parts give what the whole gives."""

from dataclasses import replace

import pytest
import torch

from pace.errors import WeightError
from pace.methods import METHODS, FedAvg, Pace, make
from pace.protocol import steps, wire
from pace.protocol.method import Summable
from pace.protocol.uploads import Messages
from tests.graphs import FEATURES, clients, federation

ENOUGH = {
    *(
        "fedavg",
        "fedprox",
        "fednova",
        "fedrcl",
        "pace",
        "pace-limited",
    ),
    *(
        "pace-transport",
        "pace-half",
        "pace-mean",
        "pace-raw",
        "pace-direct",
        "pace-ridge-sums",
        "pace-full-sums",
    ),
}


def test_which_methods_need_only_a_sum_and_the_others_say_why() -> None:
    for name in METHODS:
        method = make(name)
        assert (isinstance(method, Summable) and not method.needs) == (name in ENOUGH)
        assert bool(method.needs) == (name not in ENOUGH)


@pytest.mark.parametrize("name", sorted(ENOUGH))
def test_statistics_add_up_to_the_open_total_and_the_receiver_makes_its_own_return(
    name: str,
) -> None:
    method = make(name)
    assert isinstance(method, Summable)
    agreed, graphs = federation(method), clients(3)
    fitted = [steps.fit(graph, agreed) for graph in graphs]
    shared = [
        method.share(kept.local, graph, agreed)
        for graph, (kept, _) in zip(graphs, fitted, strict=True)
    ]
    statistics = [method.statistic_of(message, agreed) for message in shared]
    total = method.total(Messages(shared), agreed)
    for part, value in total.items():
        assert value.dtype == torch.float64
        added = torch.stack([statistic[part] for statistic in statistics]).sum(0)
        torch.testing.assert_close(added, value, rtol=1e-12, atol=1e-15)
    answer = method.answer(total, agreed)
    answers = method.merge(Messages(shared), agreed)
    for graph, (kept, _), returned in zip(graphs, fitted, answers, strict=True):
        own = method.personal(answer, kept.local, agreed)
        ours, theirs = (
            method.adopt(kept.local, message, graph, agreed)[0].params
            for message in (own, returned)
        )
        torch.testing.assert_close(dict(ours), dict(theirs), rtol=0, atol=1e-6)
    assert wire.layout(own) == wire.layout(returned)


@pytest.mark.parametrize("name", ["pace", "pace-mean", "fedavg"])
def test_shares_of_all_clients_are_one_together(name: str) -> None:
    method, graphs = make(name), clients(3)
    agreed = federation(method)
    shared = Messages([method.share(agreed.start, graph, agreed) for graph in graphs])
    shares = [weight.share for weight in method.explain(shared, agreed).weights()]
    assert sum(share or 0.0 for share in shares) == pytest.approx(1)


def test_a_sum_of_nodes_has_one_for_each_client() -> None:
    agreed = federation(FedAvg())
    FedAvg().check_total({"nodes": torch.tensor([3.0])}, 3, agreed)
    with pytest.raises(WeightError, match="expected 3 or more"):
        FedAvg().check_total({"nodes": torch.tensor([2.0])}, 3, agreed)


def test_a_reading_has_no_moment_where_none_was_sent() -> None:
    method, graph = Pace(), clients(1)[0]
    blank = replace(graph, x=torch.where(torch.arange(FEATURES) < 5, 0.0, graph.x))
    agreed = federation(method)
    message = method.share(agreed.start, blank, agreed)
    words = method.explain(Messages([message] * 2), agreed).reading().words
    assert words is not None
    assert torch.equal(words == 0, message["0.weight/m"] == 0)
    assert (words == 0).any()
