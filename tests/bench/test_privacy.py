"""A small form of `make privacy`: each attack learns from an upload what it says, and less from sums."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from benchmarks import privacy
from benchmarks.privacy import View
from sklearn.metrics import roc_auc_score

from pace.data.dataset import Dataset
from pace.data.synthetic import Synthetic, synthetic
from pace.methods import Pace
from tests.graphs import clients, federation


@cache
def small() -> tuple[dict[tuple[str, str], float], float]:
    made = synthetic(Synthetic(nodes=600, features=200, classes=4, communities=10))
    leaks, excluded = privacy.measured(
        Dataset("small", made, 4), [7], clients=5, hidden=16, epochs=60
    )
    return {(leak.attack, leak.view): leak.score for leak in leaks}, excluded


@pytest.mark.fault(38)
@pytest.mark.parametrize("attack", privacy.ATTACKS)
def test_an_upload_tells_more_than_the_sums(attack: str) -> None:
    scores, _ = small()
    assert scores[attack, "an upload"] > scores[attack, "the sums"] + 0.02
    assert scores[attack, "an upload"] > 0.6


def test_the_sums_say_nothing_about_whose_a_node_is() -> None:
    assert small()[0]["whose_node", "the sums"] == pytest.approx(0.5, abs=0.06)


def test_zero_moments_rule_out_others_nodes() -> None:
    assert 0.1 < small()[1] <= 1


def test_the_page_has_a_row_for_each_attack() -> None:
    leaks = [
        privacy.Leak(data, attack, view, 0.5)
        for data in privacy.PLACES
        for attack in privacy.ATTACKS
        for view in privacy.VIEWS
    ]
    text = privacy.page(leaks, dict.fromkeys(privacy.PLACES, 0.5), 1)
    for title, _ in privacy.ATTACKS.values():
        assert f"| {title} | 0.50 | 0.50 | 0.50 | 0.50 |" in text


def test_auc_is_scikit_learns() -> None:
    random = torch.Generator().manual_seed(0)
    scores = torch.randint(5, (80,), generator=random).float()  # with ties
    positive = torch.rand(80, generator=random) < 0.3
    assert privacy.auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores))
    assert privacy.auc(scores, torch.ones(80, dtype=torch.bool)) is None


def test_attacks_know_nothing_but_the_view() -> None:
    """A method that sends none of it is not attacked; one that told the truth would be read whole."""
    graphs = clients(3)
    agreed = federation(Pace())
    for _, attack in privacy.ATTACKS.values():
        assert attack(View(None, None, None), graphs, 0, agreed) is None
    graph = graphs[0]
    true = View(
        (graph.x[graph.train] != 0).sum(0).float(),
        torch.bincount(graph.y[graph.train], minlength=4).float(),
        None,
    )
    assert privacy.word_occurs(true, graphs, 0, agreed) == 1
    assert privacy.word_counts(true, graphs, 0, agreed) == pytest.approx(1)
    assert privacy.label_histogram(true, graphs, 0, agreed) == pytest.approx(1)
