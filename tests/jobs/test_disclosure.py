"""What a site is told before its upload is written."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pace.jobs.disclosure import MEASURED, disclosure, measured, revealed, small_classes
from pace.methods import FedAvg, Local, Pace, PaceRidge, RidgeSums
from pace.protocol import steps
from tests.graphs import clients, federation
from tests.protocol.test_steps import rebuilt

PRIVACY = Path(__file__).parents[2] / "docs" / "privacy.json"


def test_its_figures_are_those_that_were_measured() -> None:
    """docs/privacy.json is written by `make privacy`."""
    scores = {
        (leak["view"], leak["attack"], leak["data"]): leak["score"]
        for leak in json.loads(PRIVACY.read_text())["leaks"]
    }
    for view, figures in MEASURED.items():
        for attack, both in figures.items():
            for data, figure in zip(("synthetic", "cora"), both, strict=True):
                assert scores[view, attack, data] == pytest.approx(figure, abs=0.0051)


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
    assert small_classes(few) == expected
    message = steps.check_upload(steps.fit(few, agreed)[1], agreed)
    names = ("ash", "birch", "cedar", "fir")
    told = " ".join(revealed(disclosure(message, agreed, 0, few), (), names))
    assert f"of class {', '.join(names[each] for each in expected)}:" in told
    many = rebuilt(graph, y=torch.zeros_like(graph.y))
    assert "Fewer than" not in " ".join(revealed(disclosure(message, agreed, 0, many), (), names))


@pytest.mark.fault(38)
def test_a_methods_own_figures_are_given_and_no_others() -> None:
    (graph,) = clients(1)
    for method, told in (
        (Pace(), measured("PACE: an upload")),
        (PaceRidge(), measured("pace-ridge: an upload")),
        (RidgeSums(), measured("pace-ridge-sums: an upload")),
        (FedAvg(), ""),
        (Local(), ""),
    ):
        agreed = federation(method)
        message = steps.check_upload(steps.fit(graph, agreed)[1], agreed)
        said = " ".join(revealed(disclosure(message, agreed, 0, graph), ()))
        assert said.count("AUC") == told.count("AUC")
        assert told in said


@pytest.mark.fault(38)
def test_sealed_sums_of_a_regression_are_said_to_let_a_node_be_tested() -> None:
    for method, told in ((RidgeSums(), True), (Pace(), False)):
        agreed = replace(federation(method), sealed=True, clients=3)
        said = " ".join(revealed(disclosure({}, agreed, 0), ()))
        assert ("can test whether some site trained on it" in said) == told
