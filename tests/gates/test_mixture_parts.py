"""All folds at once have the minima that the plain form gives each, and its probabilities."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pace.gates import mixture
from pace.gates.mixture import local_alone, mix, weigh_parts
from pace.task import nll
from tests.gates.plain_mixture import weigh

seeds = st.integers(0, 2**31)


@settings(max_examples=60)
@given(
    seeds,
    st.integers(1, 40),
    st.integers(2, 5),
    st.integers(2, 4),
    st.sampled_from([0.1, 1.0, 30.0]),
    st.sampled_from([0.1, 2.0]),
)
def test_each_part_has_the_weights_of_the_plain_form(
    seed: int, nodes: int, classes: int, count: int, scale: float, ridge: float
) -> None:
    random = torch.Generator().manual_seed(seed)
    sets = list(scale * torch.randn(count, nodes, classes, generator=random))
    labels = torch.randint(classes, (nodes,), generator=random)
    parts = torch.rand(5, nodes, generator=random) < 0.7
    for part, found in zip(parts, weigh_parts(sets, labels, parts, ridge), strict=True):
        kept, truth = [each[part] for each in sets], labels[part]
        plain = weigh(kept, truth, ridge)
        if len(truth):  # R may be flat in some direction: its value is what counts

            def value(weights: tuple[float, ...], kept=kept, truth=truth) -> float:  # type: ignore[no-untyped-def]
                mixed = mix([each.double() for each in kept], weights)
                return nll(mixed, truth) + ridge / len(truth) * (sum(weights) - 1) ** 2

            assert value(found) == pytest.approx(value(plain), abs=1e-7)
            chances = [mix(kept, weights).softmax(1) for weights in (found, plain)]
            torch.testing.assert_close(*chances, atol=1e-3, rtol=0.0)
        else:
            assert found == plain == local_alone(sets)


def test_groups_of_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    random = torch.Generator().manual_seed(4)
    sets = list(torch.randn(3, 90, 4, generator=random))
    labels = torch.randint(4, (90,), generator=random)
    parts = torch.rand(10, 90, generator=random) < 0.9
    whole = weigh_parts(sets, labels, parts)
    monkeypatch.setattr(mixture, "AT_ONCE", 3 * 90 * 4 * 3)
    for one, other in zip(whole, weigh_parts(sets, labels, parts), strict=True):
        assert one == pytest.approx(other, abs=1e-6)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, 1e200])
def test_absurd_logits_are_local(bad: float) -> None:
    sets = [torch.zeros(8, 3).double(), torch.full((8, 3), bad, dtype=torch.float64)]
    parts = torch.ones(2, 8, dtype=torch.bool)
    assert weigh_parts(sets, torch.zeros(8, dtype=torch.int64), parts) == [(1.0, 0.0)] * 2
