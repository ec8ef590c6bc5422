"""The guard: a paired test on held-out validation nodes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from torch import Tensor

from pace.gates.gate import CHANCE, FOLDS, Guarded, Mixture, admitted, held_out, mcnemar_p_value
from pace.gates.mixture import RIDGE, Weights, weigh_parts

HUNDRED = 100


def pair(better: float, seed: int = 0) -> tuple[list[Tensor], Tensor]:
    """Local right six times in ten; External on as many nodes, and on a part `better` of the rest."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (HUNDRED,), generator=generator)
    lucky = torch.rand(HUNDRED, generator=generator)
    sets = []
    for right in (lucky < 0.6, lucky < 0.6 + 0.4 * better):
        said = torch.where(right, labels, (labels + 1) % 3)
        sets.append(2.0 * torch.nn.functional.one_hot(said, 3).double())
    return sets, labels


@given(st.integers(0, 60), st.integers(0, 60))
def test_chance_is_mcnemars_mid_p(better: int, worse: int) -> None:
    coin = binom(better + worse, 0.5)
    assert mcnemar_p_value(better, worse) == pytest.approx(coin.sf(better) + coin.pmf(better) / 2)


def test_chance_by_hand() -> None:
    assert mcnemar_p_value(0, 0) == mcnemar_p_value(3, 3) == 0.5
    assert mcnemar_p_value(1, 0) == 0.25  # one head of one throw: a half, of which half counts
    assert mcnemar_p_value(2, 1) == pytest.approx((1 + 3 / 2) / 8)


def test_chance_of_thousands_of_nodes_is_a_number() -> None:
    assert mcnemar_p_value(20_000, 20_000) == 0.5  # in less than a second
    assert 0 <= mcnemar_p_value(3000, 1000) < 1e-9
    coin = binom(20_000, 0.5)
    assert mcnemar_p_value(10_100, 9_900) == pytest.approx(coin.sf(10_100) + coin.pmf(10_100) / 2)


def test_each_node_is_held_out_once_and_never_weighed_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sets, labels = pair(0.5)
    seen: list[Tensor] = []

    def watching(given: object, known: Tensor, parts: Tensor, ridge: float) -> list[Weights]:
        seen.extend(known[part] for part in parts)
        return [(0.0, 1.0)] * len(parts)

    monkeypatch.setattr("pace.gates.gate.weigh_parts", watching)
    monkeypatch.setattr("pace.gates.gate.FOLDS", 7)
    better, worse = held_out(sets, labels, RIDGE)
    local, external = ((each.argmax(1) == labels) for each in sets)
    assert (better, worse) == (int((external & ~local).sum()), int((local & ~external).sum()))
    assert len(seen) == 7
    assert sum(HUNDRED - len(known) for known in seen) == HUNDRED


def test_every_fold_holds_out_every_class_of_nodes_in_order_of_their_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tables often come sorted: a contiguous fold would hold out one class and learn from the others."""
    labels = torch.arange(3).repeat_interleave(40)
    held: list[Tensor] = []

    def watching(given: object, known: Tensor, parts: Tensor, ridge: float) -> list[Weights]:
        held.extend(known[~part] for part in parts)
        return [(1.0, 0.0)] * len(parts)

    monkeypatch.setattr("pace.gates.gate.weigh_parts", watching)
    held_out([torch.zeros(120, 3)] * 2, labels, RIDGE)
    assert len(held) == 10
    assert all(set(fold.tolist()) == {0, 1, 2} for fold in held)


def test_clear_evidence_is_admitted_at_every_level_and_none_at_none() -> None:
    clear, none = pair(0.8), pair(0.0)
    for level in (0.5, 0.05, 0.01):
        assert admitted(*clear, RIDGE, level)
    assert mcnemar_p_value(*held_out(*none, RIDGE)) == 0.5
    assert admitted(*none, RIDGE, 0.5)
    assert not admitted(*none, RIDGE, 0.2)


def test_a_stricter_level_admits_less() -> None:
    admitted_at = {
        level: sum(admitted(*pair(0.1, seed), RIDGE, level) for seed in range(20))
        for level in (1.0, 0.2, 0.01)
    }
    assert admitted_at[1.0] == 20
    assert admitted_at[1.0] > admitted_at[0.2] > admitted_at[0.01]


def test_the_guard_tries_weights_of_the_same_ridge_as_the_mixture() -> None:
    differ = False
    for seed in range(20):
        random = torch.Generator().manual_seed(seed)
        labels = torch.randint(3, (40,), generator=random)
        sets = [torch.randn(40, 3, generator=random) for _ in range(3)]
        found = {ridge: mcnemar_p_value(*held_out(sets, labels, ridge)) for ridge in (0.0, 500.0)}
        for ridge, chance in found.items():
            assert admitted(sets, labels, ridge, CHANCE) == (chance <= CHANCE)
        differ |= (found[0.0] <= CHANCE) != (found[500.0] <= CHANCE)
    assert differ


def test_too_few_nodes_are_no_evidence() -> None:
    sets, labels = pair(0.8)
    few = [each[:4] for each in sets]
    assert not admitted(few, labels[:4], RIDGE, 0.5)
    assert admitted(few, labels[:4], RIDGE, CHANCE)  # nor of harm
    assert admitted(few, labels[:4], RIDGE, 1.0)
    right = torch.nn.functional.one_hot(labels[:FOLDS], 3).double()
    told = [
        -right,
        right,
    ]  # Local is wrong everywhere: a node a fold is evidence, one fewer is none
    assert admitted(told, labels[:FOLDS], RIDGE, 0.5)
    fewer = [logits[:-1] for logits in told]
    assert not admitted(fewer, labels[: FOLDS - 1], RIDGE, 0.5)


@pytest.mark.parametrize(("lost", "kept_local"), [(2, False), (12, True)])
def test_accuracy_may_not_fall_by_more_than_chance(lost: int, kept_local: bool) -> None:
    """Overconfident Local, soft External: NLL falls, and so do right answers."""
    labels = torch.zeros(HUNDRED, dtype=torch.int64)
    local = torch.tensor([[40.0, 0.0]]).repeat(HUNDRED, 1)
    local[:10] = torch.tensor([0.0, 40.0])  # sure and wrong: all of its NLL
    external = torch.tensor([[0.5, 0.0]]).repeat(HUNDRED, 1)
    external[:10] = torch.tensor([0.0, 0.1])
    external[10 : 10 + lost] = torch.tensor([0.0, 0.1])
    sets = [torch.zeros_like(local), external]
    sets[0] = local * (torch.arange(HUNDRED) < 10)[:, None] + 1e-3 * local
    free, guarded = (gate(sets, labels) for gate in (Mixture(), Guarded(level=CHANCE)))
    assert free[1] > 0
    assert (guarded == (1.0, 0.0)) == kept_local


def test_a_small_weight_is_guarded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever share came back has: without evidence for it Local stays."""
    monkeypatch.setattr("pace.gates.gate.weigh", lambda *given: (0.9, 0.1))
    monkeypatch.setattr("pace.gates.gate.admitted", lambda *given: False)
    sets = [torch.zeros(4, 2), torch.ones(4, 2)]
    assert Guarded()(sets, torch.zeros(4, dtype=torch.int64)) == (1.0, 0.0)


@pytest.mark.parametrize("gate", [Mixture(), Guarded(level=CHANCE)])
def test_of_many_nodes_a_sample_says_nearly_what_all_say(
    gate: Mixture | Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(3, (6000,), generator=generator)
    truth = torch.nn.functional.one_hot(labels, 3).double()
    sets = [
        strength * truth + torch.randn(6000, 3, generator=generator).double()
        for strength in (0.7, 1.0, 0.4)
    ]
    everyone = gate(sets, labels)
    monkeypatch.setattr("pace.gates.gate.MOST", 6000)
    assert gate(sets, labels) == everyone  # to the bit: nothing was left out
    monkeypatch.setattr("pace.gates.gate.MOST", 3000)
    some = gate(sets, labels)
    assert some == gate(sets, labels)
    assert some != everyone
    assert some == pytest.approx(everyone, abs=0.15)
    number = torch.arange(6000)
    for pattern in (
        number % 10 == 0,
        number < 1500,
    ):  # of the nodes, which the sample does not follow
        biased = [torch.where(pattern[:, None], -logits, logits) for logits in sets]
        everyone = weigh_parts(biased, labels, torch.ones(1, 6000) > 0)[0]
        assert gate(biased, labels) == pytest.approx(everyone, abs=0.15)
