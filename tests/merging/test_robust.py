"""Robust consensus: equal to the paper's where nobody lies, and bounded where somebody does."""

import math

import pytest
import torch
from benchmarks.server import upload
from torch import Tensor

from pace.errors import SettingError
from pace.merging import robust
from pace.merging.batches import BATCH
from pace.merging.carrier import Carrier, LowRank, compress, dense
from pace.merging.consensus import Batch, consensus
from pace.merging.moments import EPS, Moments, normalised
from pace.merging.robust import Clipped, Median, Rule, Trimmed, norms, scaled
from pace.methods import Pace, Robust
from pace.protocol import steps, wire
from tests.batches import in_batches
from tests.graphs import clients, federation

SHAPES = {"0.weight": (9, 12), "0.bias": (9,), "1.weight": (3, 9), "1.bias": (3,)}
Pair = tuple[Carrier, Moments]


def drawn(count: int, seed: int = 0) -> list[Pair]:
    generator = torch.Generator().manual_seed(seed)

    def one() -> Pair:
        update = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
        moments = {
            name: normalised(torch.rand(shape[1], generator=generator))
            for name, shape in SHAPES.items()
            if len(shape) == 2
        }
        return compress(update, 4), moments

    return [one() for _ in range(count)]


def length(model: dict[str, Tensor]) -> float:
    return float(torch.cat([value.double().flatten() for value in model.values()]).norm())


def close(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert list(one) == list(other)
    for name, value in one.items():
        torch.testing.assert_close(value, other[name].double(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rule", [Trimmed(share=0.0), Clipped(100.0), Clipped(math.inf)])
def test_with_nothing_to_cut_it_is_the_papers_consensus(rule: Rule) -> None:
    pairs = drawn(5)
    close(rule(in_batches(pairs)), consensus(in_batches(pairs)))


def test_clipping_that_clips_nobody_changes_no_byte() -> None:
    """At more clients than a batch holds: one way through the server, in one order."""
    paper, clipped = federation(Pace()), federation(Robust(rule=Clipped(1000.0)))
    assert paper.digest != clipped.digest  # the rule is part of what everybody agrees on
    messages = [upload(paper, seed) for seed in range(BATCH + 6)]
    mine, same = ([wire.encode(each, to.digest) for each in messages] for to in (paper, clipped))
    for one, other in zip(steps.merge(mine, paper), steps.merge(same, clipped), strict=True):
        head = wire.HEAD.size
        assert one[head : -wire.CHECKSUM] == other[head : -wire.CHECKSUM]


@pytest.mark.parametrize("rule", [Trimmed(), Median(), Clipped()])
def test_a_single_client_is_its_own_consensus(rule: Rule) -> None:
    pairs = drawn(1)
    expected = {name: value.double() for name, value in dense(pairs[0][0]).items()}
    for name, value in rule(in_batches(pairs)).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("clients", [3, 4, 7])
def test_the_median_is_the_least_absolute_deviation(clients: int) -> None:
    """Of all the clients' values none has a smaller weighted deviation; number by number."""
    pairs = drawn(clients)
    found = Median()(in_batches(pairs))
    for name, shape in SHAPES.items():
        values = torch.stack([dense(carrier)[name].double() for carrier, _ in pairs])
        weights = torch.ones(clients, *shape, dtype=torch.float64)
        if len(shape) == 2:
            moments = torch.stack([moments[name] for _, moments in pairs]).double() + EPS
            weights = moments[:, None].expand(clients, *shape)
        costs = (weights[None] * (values[:, None] - values[None]).abs()).sum(1)
        mine = (weights * (values - found[name]).abs()).sum(0)
        torch.testing.assert_close(mine, costs.min(0).values, rtol=1e-5, atol=1e-5)


def test_equal_weights_give_the_plain_median_and_trimmed_mean() -> None:
    pairs: list[Pair] = [(carrier, {}) for carrier, _ in drawn(5)]
    values = torch.stack([dense(carrier)["0.weight"].double() for carrier, _ in pairs])
    torch.testing.assert_close(
        Median()(in_batches(pairs))["0.weight"], values.median(0).values, rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(
        Trimmed(share=0.2)(in_batches(pairs))["0.weight"],
        values.sort(0).values[1:4].mean(0),
        rtol=1e-5,
        atol=1e-5,
    )


def test_who_holds_little_of_a_column_cannot_move_it() -> None:
    """A fifth of the weight in every column, three tenths trimmed: the number stays honest."""
    weights = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)[:, None]
    for lie in (1e9, -1e9):
        values = torch.tensor([[lie], [1.0], [2.0]]).double()
        assert 1 <= float(Trimmed(share=0.3).middle(values, weights)) <= 2
    # Between: of the ordered weights 0.3, 0.5, 0.2 what lies in [0.3, 0.7] is the second alone.
    values = torch.tensor([[3.0], [1.0], [2.0]]).double()
    assert float(Trimmed(share=0.3).middle(values, weights)) == pytest.approx(2)
    assert float(Trimmed(share=0.1).middle(values, weights)) == pytest.approx(
        (0.2 * 1 + 0.5 * 2 + 0.1 * 3) / 0.8
    )


@pytest.mark.parametrize("block", [1, 50, 10**6])
def test_blocks_of_any_size_give_the_same(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = in_batches(drawn(4), 3)
    expected = Trimmed(share=0.25)(pairs)
    monkeypatch.setattr(robust, "BLOCK", block)
    close(Trimmed(share=0.25)(pairs), expected)


def test_the_norm_is_that_of_the_product_and_scaling_is_exact() -> None:
    pairs = drawn(3)
    ((batch, _),) = in_batches(pairs)
    found = norms(batch)
    assert found == pytest.approx([length(dense(carrier)) for carrier, _ in pairs], rel=1e-5)
    factors = [0.5, 1.0, 2.0]
    products = [factor * norm for factor, norm in zip(factors, found, strict=True)]
    assert norms(scaled(batch, torch.tensor(factors))) == products


def test_length_hidden_in_the_left_factor_counts_too() -> None:
    """Honest left factors are orthonormal; nobody has to be honest."""
    carrier = drawn(1)[0][0]
    loud: Carrier = {
        name: LowRank(1e3 * value.left, value.right) if isinstance(value, LowRank) else value
        for name, value in carrier.items()
    }
    ((batch, _),) = in_batches([(loud, {})])
    assert norms(batch) == pytest.approx([length(dense(loud))], rel=1e-5)


def test_the_limit_comes_from_the_lower_median() -> None:
    """Of two honest and two who shout the upper median would be a shout."""
    pairs: list[Pair] = [({"w": by * torch.ones(4)}, {}) for by in (1.0, 1.0, 1e6, 1e6)]
    assert length(Clipped(2.0)(in_batches(pairs))) == pytest.approx((2 * 1 + 2 * 2) / 4 * 2)


def attacked(pairs: list[Pair], liars: int, by: float) -> list[Batch]:
    ((batch, moments),) = in_batches(pairs, len(pairs))
    factors = [by] * liars + [1.0] * (len(pairs) - liars)
    return [(scaled(batch, torch.tensor(factors)), moments)]


@pytest.mark.fault(9)
@pytest.mark.parametrize("liars", [1, 3, 4])
def test_scaled_updates_move_the_clipped_consensus_by_a_bound(liars: int) -> None:
    """A column is a mean of columns, so ‖Δ‖² ≤ Σ_j ‖Δ_j‖² ≤ K (c · median)²."""
    pairs = drawn(10)
    longest = max(length(dense(carrier)) for carrier, _ in pairs[liars:])
    rule = Clipped(2.0)
    loud, louder = (rule(attacked(pairs, liars, by)) for by in (1e3, 1e6))
    close(loud, louder)  # beyond the bound, shouting louder changes nothing
    assert length(loud) <= 10**0.5 * rule.most * longest
    assert length(consensus(attacked(pairs, liars, 1e6))) > 1e3 * length(loud)


@pytest.mark.fault(9, 10)
@pytest.mark.parametrize("rule", [Trimmed(math.inf), Median(math.inf)])
@pytest.mark.parametrize("by", [1e6, -1e6])
def test_trimmed_and_median_stay_among_the_honest_values(rule: Rule, by: float) -> None:
    """Three of ten lie, nobody is clipped, weights are equal: each number is between honest ones."""
    pairs: list[Pair] = [(carrier, {}) for carrier, _ in drawn(10)]
    found = rule(attacked(pairs, 3, by))
    for name, value in found.items():
        honest = torch.stack([dense(carrier)[name].double() for carrier, _ in pairs[3:]])
        assert (value >= honest.min(0).values - 1e-5).all()
        assert (value <= honest.max(0).values + 1e-5).all()


@pytest.mark.parametrize(
    "make", [lambda: Clipped(0), lambda: Trimmed(share=0.5), lambda: Trimmed(share=-1)]
)
def test_settings_that_cannot_work_are_refused(make: type[Clipped]) -> None:
    with pytest.raises(SettingError, match="expected"):
        make()


@pytest.mark.parametrize("rule", [Clipped(), Trimmed(), Median()])
@pytest.mark.parametrize("rank", [6, None])
def test_the_protocol_runs_with_every_rule(rule: Rule, rank: int | None) -> None:
    agreed = federation(Robust(rank, rule=rule))
    graphs = clients(3)
    fitted = [steps.fit(graph, agreed) for graph in graphs]
    returns = steps.merge([upload for _, upload in fitted], agreed)
    for graph, (kept, _), returned in zip(graphs, fitted, returns, strict=True):
        assert torch.isfinite(steps.adopt(graph, kept, returned, agreed).logits).all()
