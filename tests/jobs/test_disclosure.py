"""What a site is told before its upload is written."""

from dataclasses import replace

import pytest
import torch

from pace.jobs.disclosure import disclosure
from pace.methods import METHODS, Pace, RidgeSums, make
from pace.protocol import layouts, steps
from pace.protocol.method import UNKNOWN
from tests.graphs import clients, federation
from tests.protocol.test_steps import rebuilt


@pytest.mark.fault(38)
def test_a_class_of_fewer_than_five_training_nodes_is_named() -> None:
    (graph,) = clients(1)
    agreed = federation(Pace())
    label = int(graph.y[graph.train][0])
    places = (graph.train & (graph.y == label)).nonzero().flatten()
    train = graph.train.clone()
    train[places[4:]] = False
    few = rebuilt(graph, train=train)
    counts = torch.bincount(few.y[few.train], minlength=4)
    expected = tuple(each for each in range(4) if 0 < counts[each] < 5)
    assert label in expected
    message = steps.check_upload(steps.fit(few, agreed)[1], agreed)
    names = ("ash", "birch", "cedar", "fir")
    told = " ".join(disclosure(message, agreed, graph=few, classes=names).sentences)
    assert f"of class {', '.join(names[each] for each in expected)}:" in told
    many = rebuilt(graph, y=torch.zeros_like(graph.y))
    for count in (4, 5):
        train = graph.train & (graph.train.cumsum(0) <= count)
        told = " ".join(disclosure(message, agreed, graph=rebuilt(many, train=train)).sentences)
        assert ("Fewer than" in told) == (count < 5)


@pytest.mark.fault(38)
def test_methods_say_what_their_uploads_are_computed_from() -> None:
    (graph,) = clients(1)
    for name, told in {
        "pace": "how strongly it occurs around your training nodes",
        "pace-ridge": "are weighted sums of your training nodes' features",
        "pace-ridge-sums": "sends that node's features",
        "fedavg": "",
        "local": "",
    }.items():
        agreed = federation(make(name))
        message = steps.check_upload(steps.fit(graph, agreed)[1], agreed)
        sentences = " ".join(disclosure(message, agreed, graph=graph).sentences)
        assert told in sentences


@pytest.mark.parametrize("hidden", [False, True], ids=["open", "sealed"])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_every_tensor_of_its_upload_is(name: str, hidden: bool) -> None:
    method = make(name)
    if hidden and method.needs:
        pytest.skip("it cannot be sealed")
    agreed = replace(federation(method), sealed=hidden, clients=3 if hidden else 0)
    message = {} if hidden else agreed.method.share(agreed.start, clients(1)[0], agreed)
    found = disclosure(message, agreed)
    assert [item.name for item in found.items] == list(layouts.upload_layout(agreed))
    assert all(item.words.startswith("sealed: ") == hidden for item in found.items)
    own = {item.name: item.words for item in found.items if item.name not in agreed.start}
    assert not [words for words in own.values() if UNKNOWN in words]


@pytest.mark.fault(38)
def test_sealed_sums_of_a_regression_are_said_to_let_a_node_be_tested() -> None:
    for method, told in ((RidgeSums(), True), (Pace(), False)):
        agreed = replace(federation(method), sealed=True, clients=3)
        said = " ".join(disclosure({}, agreed).sentences)
        assert ("can test whether some site trained on it" in said) == told
