"""A small form of `make privacy`: each attack learns from an upload what it says, and less from sums."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from benchmarks import privacy
from benchmarks.privacy import VIEWS

from pace.datasets.dataset import Dataset
from pace.datasets.synthetic import Synthetic, synthetic
from pace.methods import Local, PaceRidge, RidgeSums
from pace.protocol import Reading
from tests.graphs import clients, federation


@cache
def small() -> pd.DataFrame:
    made = synthetic(Synthetic(nodes=600, features=200, classes=4, communities=10))
    return privacy.measured(Dataset("small", made, 4), [7], clients=5, hidden=16, epochs=60)


BY_LOSS = ("word_occurs", "word_counts", "label_histogram", "loss", "whose_node")
BY_ROW = ("row", "whose_row", "class_words")


@pytest.mark.fault(38)
@pytest.mark.parametrize("attack", BY_LOSS)
def test_an_upload_tells_more_than_the_sums(attack: str) -> None:
    scores = small()
    for method in ("PACE", "pace-ridge-sums"):
        upload, sums = (
            scores.loc[attack, f"{method}: {what}"] for what in ("an upload", "the sums")
        )
        assert upload > sums + 0.02
    for method in ("PACE", "pace-ridge", "pace-ridge-sums"):
        assert scores.loc[attack, f"{method}: an upload"] > 0.6


@pytest.mark.fault(38)
@pytest.mark.parametrize("attack", BY_ROW)
def test_rows_tell_less_than_a_sites_own_sums_and_moments_nothing_of_this_kind(attack: str) -> None:
    scores = small()
    sums, rows = (
        scores.loc[attack, f"{name}: an upload"] for name in ("pace-ridge-sums", "pace-ridge")
    )
    assert 0.6 < rows < sums
    assert sums == pytest.approx(1, abs=0.02)
    assert pd.isna(scores.loc[attack, "PACE: an upload"])


@pytest.mark.fault(38)
def test_sealed_sums_of_few_nodes_still_tell_who_was_trained_on_but_not_where() -> None:
    scores = small()
    assert scores.loc["row", "pace-ridge-sums: the sums"] > 0.7
    assert scores.loc["whose_row", "pace-ridge-sums: the sums"] == pytest.approx(0.5, abs=0.06)


@pytest.mark.fault(38)
def test_only_a_node_alone_in_its_class_is_read_whole() -> None:
    graphs = clients(3)
    agreed = federation(RidgeSums())
    local = agreed.start
    label = int(graphs[0].y[graphs[0].train][0])
    alone = graphs[0].train & (graphs[0].y != label)
    alone[graphs[0].train.nonzero()[0]] = True
    site = replace(graphs[0], train=alone)
    counts = torch.bincount(site.training_labels, minlength=4)
    single = int((counts == 1).sum())
    uploads = privacy.sent([local], [site], agreed)
    view = privacy.viewed("an upload", uploads, 0, agreed)
    share = privacy.attacked(view, [site], 0, agreed)["nodes_read"]
    assert share == pytest.approx(single / int(site.train.sum()))
    careful = federation(PaceRidge())
    view = privacy.viewed("an upload", privacy.sent([local], [site], careful), 0, careful)
    assert privacy.attacked(view, [site], 0, careful)["nodes_read"] == 0


def test_the_sums_say_nothing_about_whose_a_node_is() -> None:
    for method in ("PACE", "pace-ridge-sums"):
        score = small().loc["whose_node", f"{method}: the sums"]
        assert score == pytest.approx(0.5, abs=0.06)


def test_zero_moments_rule_out_others_nodes() -> None:
    assert 0.1 < small().loc["ruled_out", "PACE: an upload"] <= 1
    assert small().loc["ruled_out", "PACE: the sums"] < 0.1


def test_a_table_has_a_row_for_each_attack() -> None:
    scores = pd.DataFrame(0.5, index=list(privacy.TITLES), columns=list(VIEWS))
    table = privacy.attack_table("cora", scores)
    assert [row[0].text for row in table.rows] == list(privacy.TITLES.values())
    assert {value.text for row in table.rows for value in row[1:]} == {"0.50"}
    few = scores.copy()
    few[[name for name in VIEWS if "PACE" in name]] = np.nan
    assert "| - | - | 0.50 | 0.50 | 0.50 |" in privacy.attack_table("cora", few).markdown()


def test_attacks_know_nothing_but_what_was_read() -> None:
    """A method that sends none of it is not attacked; one that told the truth would be read whole."""
    graphs, agreed = clients(3), federation(Local())
    assert not any(privacy.attacked(Reading(), graphs, 0, agreed).values())
    graph = graphs[0]
    true = Reading(
        words=(graph.x[graph.train] != 0).sum(0).float(),
        classes=torch.bincount(graph.y[graph.train], minlength=4).float(),
    )
    found = privacy.attacked(true, graphs, 0, agreed)
    assert found["word_occurs"] == 1
    assert found["word_counts"] == pytest.approx(1)
    assert found["label_histogram"] == pytest.approx(1)


@pytest.mark.fault(38)
def test_moments_tell_members_better_than_losses_and_sums_tell_little() -> None:
    scores = small()
    assert scores.loc["moments", "PACE: an upload"] > scores.loc["loss", "PACE: an upload"] + 0.1
    assert scores.loc["combined", "PACE: an upload"] > 0.85
    assert scores.loc["combined", "PACE: the sums"] < 0.7
