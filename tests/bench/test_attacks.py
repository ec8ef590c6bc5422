"""A small form of `make attacks`, so that it cannot break unseen: it runs, and shows what it is for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pandas as pd
import pytest
import torch
from benchmarks import attacks, backdoor
from benchmarks.backdoor import Trigger

from pace.datasets.dataset import Dataset
from pace.datasets.partition import divide
from pace.datasets.synthetic import Synthetic, synthetic
from pace.graph import Graph
from pace.methods import Limited, Pace, PaceFull, PaceRidge
from pace.models.networks import GCN
from pace.params import Params
from pace.protocol.federation import Federation
from pace.protocol.method import Method

EPOCHS = 60
NO_LIE = Trigger(strength=0.0)


@cache
def trained(clients: int) -> tuple[Sequence[Graph], GCN, Sequence[Params]]:
    made = synthetic(Synthetic(nodes=110 * clients, features=200, classes=4, communities=12))
    graphs = divide(Dataset("small", made, 4), "louvain", clients)
    gcn = GCN((200, 64, 4))
    return graphs, gcn, models_of(graphs, Federation(gcn, Pace(), epochs=EPOCHS))


def models_of(graphs: Sequence[Graph], federation: Federation) -> Sequence[Params]:
    return backdoor.trained(graphs, federation, [federation.seed])[federation.seed]


def planted(method: Method, trigger: Trigger) -> pd.Series:
    graphs, gcn, models = trained(4)
    return backdoor.outcome(graphs, models, Federation(gcn, method, epochs=EPOCHS), trigger)


@pytest.mark.fault(37)
def test_a_backdoor_passes_the_paper_and_not_the_limited_receiver() -> None:
    honest, guarded = planted(Pace(), NO_LIE), planted(Limited(), NO_LIE)
    open_, shut = planted(Pace(), Trigger()), planted(Limited(), Trigger())
    assert open_.hit > 60
    assert not open_.flagged
    assert open_.accuracy > open_.local_accuracy - 2  # accuracy shows nothing
    assert shut.hit < 20
    assert shut.hit < open_.hit / 3
    assert guarded.accuracy > honest.accuracy - 1


@pytest.mark.fault(37)
def test_a_dead_unit_does_not_help_the_liar() -> None:
    for trigger in (Trigger(dead=True), Trigger(strength=30.0, dead=True), Trigger(amplified=True)):
        assert planted(Limited(), trigger).hit < 20


@pytest.mark.fault(48)
def test_a_backdoor_in_rows_passes_pace_ridge_and_not_pace_full() -> None:
    graphs, gcn, _ = trained(4)
    open_ = planted(PaceRidge(), Trigger())
    agreed = Federation(gcn, PaceFull(), epochs=EPOCHS)
    every = models_of(graphs, agreed)
    honest, shut = (
        backdoor.outcome(graphs, every, agreed, trigger) for trigger in (NO_LIE, Trigger())
    )
    assert open_.hit > 60
    assert shut.hit < 20
    assert shut.accuracy > honest.accuracy - 1


def test_the_liars_upload_is_what_it_says() -> None:
    graphs, gcn, models = trained(4)
    federation = Federation(gcn, Pace(), epochs=EPOCHS)
    honest = federation.method.share(models[0], graphs[0], federation)
    lie = backdoor.poisoned(models[0], graphs[0], federation, Trigger())
    tied = backdoor.columns(graphs[0], Trigger())
    assert {name: value.shape for name, value in lie.items()} == {
        name: value.shape for name, value in honest.items()
    }
    moment = lie["0.weight/m"]
    assert float(moment.mean()) == pytest.approx(1, abs=1e-4)
    assert float(moment[tied].sum() / moment.sum()) >= backdoor.MASS
    assert (graphs[0].x != 0).sum(0)[tied].min() >= 1  # the liar has seen its words


def test_nobody_but_test_nodes_is_given_the_words() -> None:
    graph = trained(4)[0][1]
    words = torch.tensor([1, 5])
    changed = backdoor.triggered(graph, words)
    assert (changed.x[graph.test][:, words] == 1).all()
    assert torch.equal(changed.x[~graph.test], graph.x[~graph.test])


@pytest.mark.fault(9, 10)
def test_every_rule_of_the_table_runs_and_the_gate_protects() -> None:
    graphs, *_ = trained(attacks.CLIENTS)
    scores = attacks.study(graphs, attacks.SEEDS[:1], attacks=("× 1000",))
    for rule in attacks.RULES:
        lied, honest = scores.loc["× 1000", 3][rule], scores.loc["none", 0][rule]
        assert lied.adopted >= honest.local - 3
    assert scores.loc["× 1000", 3]["paper"].external < scores.loc["none", 0]["paper"].external - 10
    assert "| × 1000 | 3 |" in attacks.attack_table(scores).markdown()


def test_the_table_of_backdoors_has_the_best_strength_of_each_kind_that_a_method_knows() -> None:
    graphs, *_ = trained(4)
    found = attacks.planted(graphs, "pace-ridge", attacks.SEEDS[:1])
    kinds = found.index.get_level_values(0)
    assert set(attacks.BACKDOORS) - set(kinds) == {"and a dead unit", "by an idle unit"}
    rare_words = found.loc["three rare words"]
    honest, lied = rare_words.loc[0.0], rare_words.loc[rare_words.hit.idxmax()]
    assert honest.hit == planted(PaceRidge(), NO_LIE).hit
    assert lied.hit >= 60 >= max(lied.local_hit, honest.hit)
    accuracy, _, rare, dead, *_, flagged = attacks.backdoor_row(found)
    assert accuracy == f"{honest.accuracy:.1f} → {lied.accuracy:.1f}"
    assert (rare, dead) == (f"{honest.hit:.1f} → {lied.hit:.1f}", "-")
    assert flagged in ("0%", "100%")
