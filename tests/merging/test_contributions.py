"""What each site brought: against pooled data, by Shapley's axioms, and sites that give nothing."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
import torch
from torch import Tensor

from pace.merging import contributions as bringing
from pace.merging.contributions import SiteSums, shapley_values, weigh_sites
from pace.merging.ridge import condensed, solve_gram

STRENGTH = 3.0


def rows_of(sites: int = 5, nodes: int = 40, features: int = 12, classes: int = 3, seed: int = 0):  # type: ignore[no-untyped-def]
    """Rows of length one and their classes, which one teacher gave."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(sites, nodes, features, generator=generator, dtype=torch.float64)
    rows = rows / rows.norm(dim=2, keepdim=True)
    teacher = torch.randn(features, classes, generator=generator, dtype=torch.float64)
    labels = torch.nn.functional.one_hot((rows @ teacher).argmax(2), classes).double()
    return rows, labels


def sums_of(rows: Tensor, labels: Tensor) -> SiteSums:
    counts = torch.full((len(rows),), rows.shape[1])
    return SiteSums.of_rows(rows, rows.mT @ labels, counts)


def squared_losses(rows: Tensor, labels: Tensor, present: list[int]) -> Tensor:
    """The oracle: least squares on stacked data with a ridge, and |Y - HW|² of every site."""
    features = rows.shape[2]
    stacked = torch.cat([*rows[present], STRENGTH**0.5 * torch.eye(features).double()])
    right = torch.cat([*labels[present], torch.zeros(features, labels.shape[2]).double()])
    answer = torch.linalg.lstsq(stacked, right).solution
    losses: Tensor = (labels - rows @ answer).square().sum((1, 2))
    return losses


@pytest.mark.parametrize("features", [12, 400])
def test_losses_are_those_on_the_pooled_data(features: int) -> None:
    """With fewer columns than rows, and with more, where a basis of the rows is taken."""
    rows, labels = rows_of(features=features)
    parts = sums_of(rows, labels)
    for present in ([0, 1, 2, 3, 4], [1, 3], [2]):
        roll = [site in present for site in range(5)]
        found = parts.losses(*parts.answers(torch.tensor([roll]), STRENGTH))
        expected = squared_losses(rows, labels, present)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    brought = weigh_sites(parts, STRENGTH)
    together = squared_losses(rows, labels, [0, 1, 2, 3, 4])
    for left in range(5):
        others = [site for site in range(5) if site != left]
        without = squared_losses(rows, labels, others)[left]
        assert brought.alone[left] == pytest.approx(float(without) / 40, abs=1e-9)
        own = (without - together[left]) / 40
        assert brought.helps[left][left] == pytest.approx(float(own), abs=1e-9)
        for giver in others:
            fewer = squared_losses(rows, labels, [site for site in others if site != giver])[left]
            given = brought.helps[giver][left]
            assert given == pytest.approx(float(fewer - without) / 40, abs=1e-9)


def test_shapleys_axioms() -> None:
    rows, labels = rows_of(sites=6)
    rows[4], labels[4] = rows[1], labels[1]  # two sites that send the same
    rows[5], labels[5] = 0, 0  # one that sends nothing
    parts = sums_of(rows, labels)
    values, error = shapley_values(parts, STRENGTH)
    everybody = float(parts.values(torch.ones(1, 6), STRENGTH))
    assert error == 0
    assert float(values.sum()) == pytest.approx(everybody, abs=1e-9)  # efficiency
    assert float(values[1]) == pytest.approx(float(values[4]), abs=1e-9)  # symmetry
    assert float(values[5]) == pytest.approx(0, abs=1e-9)  # a dummy gets nothing
    # additivity: with v on the rows of some sites and on the others', the values add up
    shares = []
    for chosen in ([0, 1, 2], [3, 4, 5]):
        some = torch.zeros(6).double()
        some[chosen] = 1
        part = Watched(parts.grams, parts.sums, parts.nodes)
        object.__setattr__(part, "watched", some)
        shares.append(shapley_values(part, STRENGTH)[0])
    torch.testing.assert_close(shares[0] + shares[1], values, atol=1e-9, rtol=0)


class Watched(SiteSums):
    """The same rolls, valued on the rows of some sites only."""

    watched: Tensor

    def values(self, rolls: Tensor, strength: float) -> Tensor:
        losses = torch.stack([self.losses(answer) for answer in self.answers(rolls, strength)])
        return (self.nodes - losses) @ self.watched / self.nodes.sum()


def test_all_rolls_give_what_all_orders_give() -> None:
    """The definition: the mean over all orders of what a site adds when it comes."""
    parts = sums_of(*rows_of(sites=4))
    expected = torch.zeros(4).double()
    orders = list(permutations(range(4)))
    for order in orders:
        roll, last = [False] * 4, 0.0
        for site in order:
            roll[site] = True
            value = float(parts.values(torch.tensor([roll]), STRENGTH))
            expected[site] += (value - last) / len(orders)
            last = value
    torch.testing.assert_close(shapley_values(parts, STRENGTH)[0], expected, atol=1e-9, rtol=0)


def test_permutations_are_within_their_stated_error(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = sums_of(*rows_of(sites=8))
    exact, _ = shapley_values(parts, STRENGTH)
    monkeypatch.setattr(bringing, "ROLLS", 2**8 - 1)
    drawn, error = shapley_values(parts, STRENGTH)
    assert error > 0
    assert float((drawn - exact).abs().max()) < 4 * error
    assert float(drawn.sum()) == pytest.approx(float(exact.sum()), abs=1e-9)


@pytest.mark.parametrize("rolls", [64, 63, 30])
def test_no_more_is_solved_than_the_budget_has(rolls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six sites have 64 rolls of 12³ operations each; with fewer, whole permutations of six."""
    parts, solved = sums_of(*rows_of(sites=6)), 0

    def counted(*given: Any) -> Tensor:
        nonlocal solved
        solved += 1
        return solve_gram(*given)

    monkeypatch.setattr(bringing, "BUDGET", rolls * 12**3)
    monkeypatch.setattr(bringing, "solve_gram", counted)
    _, error = shapley_values(parts, STRENGTH)
    assert solved == (64 if rolls == 64 else 6 * (rolls // 6))
    assert (error == 0) == (rolls == 64)


def test_the_stated_error_of_a_few_rows_that_stand_for_many() -> None:
    """The quadratic part of a loss is too small by tr(Wᵀ(G - ZᵀZ)W), at most (tr G - tr ZᵀZ) |W|²."""
    rows, labels = (part[0] for part in rows_of())
    few, sent = condensed(rows, labels, 6)
    answer = torch.randn(12, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    error = float(((rows.T @ rows - few.T @ few) @ answer * answer).sum())
    left_out = float(rows.square().sum() - few.square().sum())
    assert 0 < error <= left_out * float(torch.linalg.matrix_norm(answer, 2)) ** 2
    both, none = ((rows, labels), (few, sent)), torch.zeros(1).double()
    parts = [SiteSums((h.T @ h)[None], (h.T @ y)[None], none) for h, y in both]
    losses = [float(part.losses(answer)) for part in parts]
    linear = -2 * float(((rows.T @ labels - few.T @ sent) * answer).sum())
    assert losses[0] - losses[1] == pytest.approx(error + linear, abs=1e-9)


def test_an_error_is_stated_however_few_permutations_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bringing, "ROLLS", 5)
    _, error = shapley_values(sums_of(*rows_of(features=12)), STRENGTH)
    assert 0 < error < 1
