"""The gate over several logit sets: convex, optimal, never above Local on validation nodes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import Tensor

from pace.gates.cnll import calibrate
from pace.gates.mixture import (
    HALVINGS,
    Problems,
    minimisers,
    mix,
    newton,
    optimal,
    weigh,
    weigh_parts,
)
from pace.task import nll
from tests.gates.blended import blend

Drawn = tuple[Tensor, Tensor]


@st.composite
def problems(draw: st.DrawFn, least: int = 2) -> Drawn:
    """(K, n, classes) logits that know something of the labels, and the labels."""
    sets, nodes = draw(st.integers(least, 4)), draw(st.integers(1, 40))
    classes, scale = draw(st.integers(2, 6)), draw(st.sampled_from([0.1, 1.0, 5.0]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    labels = torch.randint(classes, (nodes,), generator=generator)
    knows = torch.nn.functional.one_hot(labels, classes) * torch.rand(
        sets, 1, 1, generator=generator
    )
    noise = torch.randn(sets, nodes, classes, generator=generator)
    return (scale * (knows + noise)).double(), labels


class Problem(Problems):
    """All nodes as the only part."""

    def __init__(self, sets: Tensor, labels: Tensor, ridge: float) -> None:
        super().__init__(sets, labels, torch.ones(1, len(labels), dtype=torch.bool), ridge)


def value_at(problem: Problem, weights: Tensor) -> float:
    return float(problem.value(weights[None]))


RIDGES = st.sampled_from([0.1, 2.0, 50.0])
quick = settings(max_examples=60)


@given(problems(), RIDGES, st.integers(0, 2**31), st.floats(0, 1))
@quick
def test_r_is_convex(drawn: Drawn, ridge: float, seed: int, part: float) -> None:
    problem = Problem(*drawn, ridge)
    generator = torch.Generator().manual_seed(seed)
    one, other = 3 * torch.rand(2, len(drawn[0]), generator=generator).double()
    between = value_at(problem, (1 - part) * one + part * other)
    assert between <= (1 - part) * value_at(problem, one) + part * value_at(problem, other) + 1e-9


@given(problems(), RIDGES, st.integers(0, 2**31))
@quick
def test_gradient_and_hessian_are_those_of_autograd(drawn: Drawn, ridge: float, seed: int) -> None:
    sets, labels = drawn
    problem = Problem(sets, labels, ridge)
    weights = torch.rand(len(sets), generator=torch.Generator().manual_seed(seed)).double()

    def r(w: Tensor) -> Tensor:
        mixed = torch.einsum("k,knc->nc", w, sets)
        away = (w.sum() - 1) ** 2
        return torch.nn.functional.cross_entropy(mixed, labels) + ridge / len(labels) * away

    hessian = torch.autograd.functional.hessian(r, weights)
    assert isinstance(hessian, Tensor)
    torch.testing.assert_close(problem.derivatives(weights[None])[1][0], hessian)
    asked = weights.clone().requires_grad_()
    torch.testing.assert_close(
        problem.derivatives(weights[None])[0][0], torch.autograd.grad(r(asked), asked)[0]
    )
    assert value_at(problem, weights) == pytest.approx(float(r(weights)))


@given(problems(), RIDGES)
@quick
def test_the_weights_are_those_of_a_general_optimiser(drawn: Drawn, ridge: float) -> None:
    problem = Problem(*drawn, ridge)
    weights = minimisers(problem)[0]
    assert optimal(problem, (weights)[None])

    def value(free: object) -> float:
        return value_at(problem, torch.as_tensor(free, dtype=torch.float64))

    start = [1.0] + [0.1] * (len(drawn[0]) - 1)
    other = minimize(value, start, bounds=[(0, None)] * len(start), method="L-BFGS-B", tol=1e-14)
    assert value_at(problem, weights) <= other.fun + 1e-9


@given(problems(), RIDGES)
@quick
def test_the_conditions_of_optimality_refuse_another_point(drawn: Drawn, ridge: float) -> None:
    problem = Problem(*drawn, ridge)
    weights = minimisers(problem)[0]
    assert not optimal(problem, (weights + 0.5)[None])
    assert not optimal(problem, (weights - 0.5 * (weights == weights.max()) - 1e-3)[None])


@given(problems(), RIDGES)
@quick
def test_no_regret_on_validation_nodes(drawn: Drawn, ridge: float) -> None:
    """Nor against any External, or any blend of two: each of them pays no ridge either."""
    sets, labels = drawn
    weights = weigh(list(sets), labels, ridge)
    assert nll(mix(list(sets), weights), labels) <= nll(sets[0], labels)
    problem = Problem(sets, labels, ridge)
    least = value_at(problem, minimisers(problem)[0])
    for external in sets[1:]:
        alpha = calibrate([(sets[0], external, labels)])[0]
        assert least <= nll(blend(sets[0], external, alpha), labels) + 1e-9


@given(problems(), st.sampled_from([3.0, -7.0]))
@quick
def test_constants_added_to_a_nodes_logits_change_no_weight(drawn: Drawn, shift: float) -> None:
    sets, labels = drawn
    moved = sets + shift * torch.arange(sets.shape[1])[:, None]
    assert weigh(list(moved), labels) == pytest.approx(weigh(list(sets), labels), abs=1e-5)


@pytest.mark.parametrize("ridge", [0.2, 2.0, 20.0, None])
def test_the_gate_solves_the_problem_with_the_ridge_it_is_given(ridge: float | None) -> None:
    """Modest logits on few nodes, so that every ridge gives another sum; 2 where nobody says."""
    random = torch.Generator().manual_seed(5)
    labels = torch.randint(3, (12,), generator=random)
    knows = torch.nn.functional.one_hot(labels, 3).double()
    noise = 0.5 * torch.randn(2, 12, 3, generator=random).double()
    sets = [0.2 * knows + 0.2 * noise[0], 0.3 * knows + 0.2 * noise[1]]
    found = weigh(sets, labels) if ridge is None else weigh(sets, labels, ridge)

    def r(weights: Tensor, rho: float) -> float:
        mixed = torch.einsum("k,knc->nc", weights, torch.stack(sets))
        away = float(weights.sum() - 1) ** 2
        return float(torch.nn.functional.cross_entropy(mixed, labels)) + rho / 12 * away

    rho = 2.0 if ridge is None else ridge
    best = torch.tensor(found, dtype=torch.float64)
    assert best[1] > 0
    around = 0.01 * torch.randn(50, 2, generator=random).double()
    assert all(r(best, rho) <= r((best + step).clamp_min(0), rho) for step in around)
    for other in {0.2, 2.0, 20.0} - {rho}:
        assert sum(weigh(sets, labels, other)) != pytest.approx(sum(found), rel=0.05)


@given(problems())
@quick
def test_with_a_ridge_that_forces_the_sum_it_is_cnll(drawn: Drawn) -> None:
    sets, labels = drawn[0][:2], drawn[1]
    weights = weigh(list(sets), labels, ridge=1e6)
    alpha = calibrate([(sets[0], sets[1], labels)])[0]
    blended = nll(blend(sets[0], sets[1], alpha), labels)
    assert nll(mix(list(sets), weights), labels) == pytest.approx(blended, rel=1e-3, abs=1e-4)


def test_a_temperature_cures_overconfidence() -> None:
    """Local right nine times in ten with logits ten times too large: half an External is not needed."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(3, (300,), generator=generator)
    honest = 2.0 * torch.nn.functional.one_hot(labels, 3) + torch.randn(300, 3, generator=generator)
    problem = Problem(torch.stack([10 * honest, torch.zeros(300, 3)]).double(), labels, 2.0)
    weights = minimisers(problem)[0]
    # Logits 2 y + noise of variance one are those of a Gaussian with margin 2: twice as sure is right.
    assert weights[0] == pytest.approx(0.2, abs=0.03)


def test_externals_that_say_what_local_says_leave_local_bit_for_bit() -> None:
    generator = torch.Generator().manual_seed(2)
    local = torch.randn(20, 4, generator=generator)
    labels = torch.randint(4, (20,), generator=generator)
    sets = [local, local.clone(), local.clone()]
    assert weigh(sets, labels) == (1.0, 0.0, 0.0)
    assert mix(sets, (1.0, 0.0, 0.0)) is local


def test_nothing_to_decide_by_leaves_local() -> None:
    sets = [torch.randn(0, 3)] * 3
    assert weigh(sets, torch.zeros(0, dtype=torch.int64)) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, 1e308, 1e38])
def test_logits_out_of_bounds_leave_local_or_do_no_harm(bad: float) -> None:
    generator = torch.Generator().manual_seed(3)
    local = torch.randn(30, 3, generator=generator).double()
    labels = torch.randint(3, (30,), generator=generator)
    weights = weigh([local, torch.full_like(local, bad) * torch.tensor([1.0, -1.0, 1.0])], labels)
    assert nll(mix([local, torch.zeros_like(local)], weights), labels) < torch.inf
    assert weights == (1.0, 0.0)


def test_weights_sum_beyond_one_where_everybody_is_too_modest() -> None:
    generator = torch.Generator().manual_seed(4)
    labels = torch.randint(3, (200,), generator=generator)
    right = torch.nn.functional.one_hot(labels, 3).double()
    sets = [0.1 * (right + torch.randn(200, 3, generator=generator)) for _ in range(3)]
    assert sum(weigh(sets, labels)) > 3


def test_newtons_method_ends_where_rounding_leaves_no_way_down() -> None:
    """With one class at 1e38 no length of the first step lowers R: it is not tried a hundred times."""

    class Counted(Problem):
        asked = 0

        def value(self, weights: Tensor) -> Tensor:
            self.asked += 1
            return super().value(weights)

    random = torch.Generator().manual_seed(1)
    local = (1e6 * torch.randn(9, 3, generator=random)).double()
    huge = local.clone()
    huge[:, 0] = 1e38
    problem = Counted(
        torch.stack([local, huge]), torch.randint(3, (9,), generator=random), ridge=2.0
    )
    minimisers(problem)[0]
    assert 1 < problem.asked <= 1 + HALVINGS


@given(problems(), RIDGES)
@quick
def test_a_fold_has_the_minimum_that_it_has_by_itself(drawn: Drawn, ridge: float) -> None:
    """Wherever Newton's method begins: R is convex."""
    sets, labels = drawn
    folds = torch.arange(len(labels)) % 2 == torch.arange(2)[:, None]
    for fold, weights in zip(folds, weigh_parts(list(sets), labels, folds, ridge), strict=True):
        if not fold.any():
            continue
        alone = weigh(list(sets[:, fold]), labels[fold], ridge)
        problem = Problem(sets[:, fold], labels[fold], ridge)
        values = [value_at(problem, torch.tensor(each).double()) for each in (weights, alone)]
        assert values[0] == pytest.approx(values[1], abs=1e-7)


def test_a_singular_parabola_gives_no_step_and_leaves_others_theirs() -> None:
    """Found by `make fuzz`: hostile logits ended in an error of LAPACK in place of Local."""
    gradient, free = torch.tensor([[1.0, 2.0]] * 2).double(), torch.ones(2, 2, dtype=torch.bool)
    hessian = torch.stack([torch.zeros(2, 2), torch.diag(torch.tensor([2.0, 4.0]))]).double()
    step = newton(gradient, hessian, free)
    assert step[0].tolist() == [0.0, 0.0]
    torch.testing.assert_close(step[1], torch.tensor([-0.5, -0.5]).double())
