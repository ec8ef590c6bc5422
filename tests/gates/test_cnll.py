"""CNLL: Propositions 1 to 3 of the paper's appendix, over random logits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from torch import Tensor

from pace.gates.cnll import (
    BISECTIONS,
    Slopes,
    calibrate,
    slope,
)
from pace.task import nll
from tests.gates.blended import blend
from tests.gates.plain_mixture import at_labels, excess

Drawn = tuple[Tensor, Tensor, Tensor]


@st.composite
def logits(draw: st.DrawFn) -> Drawn:
    nodes, classes = draw(st.integers(1, 12)), draw(st.integers(2, 6))
    scale = draw(st.sampled_from([0.1, 1.0, 5.0]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    local, external = scale * torch.randn(2, nodes, classes, generator=generator).double()
    return local, external, torch.randint(classes, (nodes,), generator=generator)


ALPHAS = st.floats(0, 1)
quick = settings(max_examples=60)


@given(logits(), ALPHAS)
@quick
def test_proposition_1_the_blend_is_the_normalised_geometric_pool(drawn: Drawn, a: float) -> None:
    local, external, _ = drawn
    pool = local.softmax(1) ** (1 - a) * external.softmax(1) ** a
    torch.testing.assert_close(
        blend(local, external, a).softmax(1), pool / pool.sum(1, keepdim=True)
    )


def test_proposition_1_the_blend_is_the_reverse_kl_barycentre() -> None:
    local, external = torch.randn(2, 1, 4, generator=torch.Generator().manual_seed(5)).double()
    p, q = local.softmax(1)[0].numpy(), external.softmax(1)[0].numpy()

    def divergence(free: object) -> float:
        r = torch.tensor(free).softmax(0).numpy()
        return float((0.7 * r * torch.log(torch.tensor(r / p)).numpy()).sum()) + float(
            (0.3 * r * torch.log(torch.tensor(r / q)).numpy()).sum()
        )

    found = torch.tensor(minimize(divergence, [0.0] * 4, tol=1e-12).x).softmax(0)
    torch.testing.assert_close(blend(local, external, 0.3).softmax(1)[0], found, atol=1e-5, rtol=0)


@given(logits(), ALPHAS)
@quick
def test_corollary_constants_added_to_a_nodes_logits_change_nothing(drawn: Drawn, a: float) -> None:
    local, external, labels = drawn
    shift = torch.arange(len(local)).double()[:, None] - 3
    torch.testing.assert_close(
        blend(local + shift, external - 2 * shift, a).softmax(1),
        blend(local, external, a).softmax(1),
    )
    moved = slope(local + shift, external - 2 * shift, labels, a)
    assert moved == pytest.approx(slope(local, external, labels, a), abs=1e-9)


@given(logits(), st.floats(0.01, 0.99))
@quick
def test_proposition_2_the_slope_is_the_derivative_of_the_risk(drawn: Drawn, a: float) -> None:
    local, external, labels = drawn
    alpha = torch.tensor(a, dtype=torch.float64, requires_grad=True)
    mixed = (1 - alpha) * local + alpha * external
    risk = torch.nn.functional.cross_entropy(mixed, labels)
    (derivative,) = torch.autograd.grad(risk, alpha)
    assert slope(local, external, labels, a) == pytest.approx(float(derivative), abs=1e-9)


@given(logits(), ALPHAS, ALPHAS, ALPHAS)
@quick
def test_proposition_2_the_risk_is_convex(drawn: Drawn, a: float, b: float, t: float) -> None:
    local, external, labels = drawn

    def risk(alpha: float) -> float:
        return nll(blend(local, external, alpha), labels)

    assert risk(t * a + (1 - t) * b) <= t * risk(a) + (1 - t) * risk(b) + 1e-9
    low, high = sorted((a, b))
    assert slope(local, external, labels, low) <= slope(local, external, labels, high) + 1e-9


@given(logits())
@quick
def test_proposition_2_an_interior_alpha_matches_moments(drawn: Drawn) -> None:
    local, external, labels = drawn
    alpha = calibrate([(local, external, labels)])[0]
    if 0 < alpha < 1:
        assert slope(local, external, labels, alpha) == pytest.approx(0, abs=1e-9)


@pytest.mark.fault(22)
@given(logits())
@quick
def test_proposition_3_validation_nll_never_exceeds_locals(drawn: Drawn) -> None:
    local, external, labels = drawn
    alpha = calibrate([(local, external, labels)])[0]
    assert nll(blend(local, external, alpha), labels) <= nll(local, labels)


@given(logits())
@quick
def test_alpha_is_the_minimiser_scipy_finds(drawn: Drawn) -> None:
    local, external, labels = drawn
    found = minimize_scalar(
        lambda a: nll(blend(local, external, a), labels),
        bounds=(0, 1),
        method="bounded",
        options={"xatol": 1e-10},
    )
    ours = nll(blend(local, external, calibrate([(local, external, labels)])[0]), labels)
    assert ours <= found.fun + 1e-9


def bisected(slopes: Slopes) -> float:
    """Plain bisection of [0, 1], until no halving moves the ends any more."""
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (
            (middle, high)
            if slopes(torch.tensor([middle], dtype=torch.float64))[0] < 0
            else (low, middle)
        )
    return (low + high) / 2


@given(logits(), st.sampled_from([1e-9, 1.0, 1e4, 1e9]), st.sampled_from([1, 40]))
@quick
def test_alpha_is_plain_bisections_bit_for_bit(drawn: Drawn, scale: float, copies: int) -> None:
    local, external, labels = (each.repeat(copies, *(1,) * (each.ndim - 1)) for each in drawn)
    local, external = scale * local, scale * (local + 0.1 * external)
    alpha = calibrate([(local, external, labels)])[0]
    slopes = Slopes([(local, external, labels)])
    if slopes(torch.zeros(1).double())[0] < 0 < slopes(torch.ones(1).double())[0]:
        assert alpha == bisected(slopes)


@given(logits(), ALPHAS)
@quick
def test_the_slope_is_its_plain_formula(drawn: Drawn, a: float) -> None:
    local, external, labels = drawn
    displacement = (external - local)[None]
    observed = at_labels(displacement, labels)
    plain = excess(blend(local, external, a), displacement, observed)
    assert slope(local, external, labels, a) == pytest.approx(float(plain), abs=1e-12, rel=1e-12)


@given(st.lists(logits(), max_size=8))
@quick
def test_receivers_beside_each_other_find_what_each_finds_alone_bit_for_bit(
    receivers: list[Drawn],
) -> None:
    assert calibrate(receivers) == [calibrate([each])[0] for each in receivers]


def test_a_large_receiver_beside_small_ones_too() -> None:
    random = torch.Generator().manual_seed(3)
    receivers = []
    for nodes in (1, 1025, 3, 1000, 0, 999, 1024):
        local, external = torch.randn(2, nodes, 7, generator=random)
        receivers.append((local, external, torch.randint(7, (nodes,), generator=random)))
    receivers[2][1][0, 0] = torch.nan
    together = calibrate(receivers)
    assert together == [calibrate([each])[0] for each in receivers]
    assert together[2] == together[4] == 0.0
    assert sum(0 < alpha < 1 for alpha in together) >= 3


@pytest.mark.fault(22)
def test_alpha_zero_returns_the_local_logits_bit_for_bit() -> None:
    local = torch.tensor([[0.1, -0.0, float("inf")]])
    external = torch.tensor([[float("nan"), 1.0, 2.0]])
    assert blend(local, external, 0.0) is local
    assert blend(local, external, 1.0) is external


def test_external_that_is_always_right_is_admitted_in_full() -> None:
    labels = torch.tensor([0, 1, 2])
    assert calibrate([(torch.zeros(3, 3), torch.eye(3), labels)])[0] == 1.0


def test_external_that_is_always_wrong_is_refused() -> None:
    labels = torch.tensor([0, 1, 2])
    assert calibrate([(torch.eye(3), torch.eye(3).roll(1, 0), labels)])[0] == 0.0


def test_equal_logits_keep_local() -> None:
    assert calibrate([(torch.eye(3), torch.eye(3), torch.tensor([0, 0, 1]))])[0] == 0.0


@pytest.mark.fault(23)
def test_no_validation_nodes_keep_local() -> None:
    nothing = torch.zeros(0, 3)
    assert calibrate([(nothing, nothing, torch.zeros(0, dtype=torch.int64))])[0] == 0.0


@pytest.mark.fault(22)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_logits_that_are_not_finite_keep_local(bad: float) -> None:
    external = torch.eye(3)
    external[2, 0] = bad
    assert calibrate([(torch.zeros(3, 3), external, torch.tensor([0, 1, 2]))])[0] == 0.0
