"""The extra losses against finite differences and against the text of their papers, node by node."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pace.training.optimiser import Penalty, Proximal
from pace_study.baselines import fedtad as distillation
from pace_study.baselines.fedrcl import RelaxedContrast, extremes

EXACT = torch.float64
LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 3])  # class 3 has one member


def slopes(loss: Callable[[Tensor], Tensor], at: Tensor, step: float = 1e-6) -> Tensor:
    """Central differences."""
    found = torch.zeros_like(at)
    for index in range(at.numel()):
        ahead, behind = at.clone(), at.clone()
        ahead.view(-1)[index] += step
        behind.view(-1)[index] -= step
        found.view(-1)[index] = (loss(ahead) - loss(behind)) / (2 * step)
    return found


def gradient(loss: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    leaf = at.clone().requires_grad_()
    loss(leaf).backward()
    assert leaf.grad is not None
    return leaf.grad


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=EXACT)


def of_features(penalty: Penalty) -> Callable[[Tensor], Tensor]:
    return lambda features: penalty({}, {}, (features[:, :5], features[:, 5:]), LABELS)


def test_the_proximal_term() -> None:
    start = {"w": drawn(3, 2, seed=1)}

    def loss(value: Tensor) -> Tensor:
        return Proximal(0.3)({"w": value}, start, (), LABELS)

    at = drawn(3, 2)
    assert float(loss(at)) == pytest.approx(0.15 * float(((at - start["w"]) ** 2).sum()))
    torch.testing.assert_close(gradient(loss, at), slopes(loss, at), rtol=1e-6, atol=1e-8)
    assert not gradient(loss, start["w"]).any()


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)])
def test_the_relaxed_contrast(weights: tuple[float, float]) -> None:
    # Features near each other, so that some same-class cosines pass the threshold and some do not.
    at = drawn(9, 9) + 1.5
    loss = of_features(RelaxedContrast(*weights, 0.05, 0.7, None))
    slope = gradient(loss, at)
    assert slope.any()
    torch.testing.assert_close(slope, slopes(loss, at), rtol=1e-4, atol=1e-7)


def contrast_by_hand(features: Tensor, temperature: float, threshold: float) -> tuple[float, float]:
    """SCL and PEN as their definitions read, in Python numbers."""
    unit = features / features.norm(dim=1, keepdim=True)
    s = (unit @ unit.t()).tolist()
    labels = LABELS.tolist()
    scl, pen = 0.0, 0.0
    for v, label in enumerate(labels):
        peers = [s[v][u] for u in range(len(labels)) if labels[u] == label]
        others = sorted(s[v][u] for u in range(len(labels)) if labels[u] != label)[-2:]
        positive = math.exp(min(peers) / temperature)
        scl -= math.log(
            positive / (positive + sum(math.exp(other / temperature) for other in others))
        )
        rest = [s[v][u] for u in range(len(labels)) if labels[u] == label and u != v]
        close = min(rest) if rest and min(rest) >= threshold else -1.0
        pen += math.log(1 + math.exp((close - 1) / temperature))
    return scl / len(labels), pen / len(labels)


def test_the_relaxed_contrast_is_its_definition() -> None:
    at = drawn(9, 9) + 1.5
    levels = [contrast_by_hand(part, 0.05, 0.7) for part in (at[:, :5], at[:, 5:])]
    for index, weights in enumerate([(1.0, 0.0), (0.0, 1.0)]):
        expected = sum(level[index] for level in levels) / 2
        found = of_features(RelaxedContrast(*weights, 0.05, 0.7, None))(at)
        assert float(found) == pytest.approx(expected, rel=1e-9)
        only = of_features(RelaxedContrast(*weights, 0.05, 0.7, (0,)))(at)
        assert float(only) == pytest.approx(levels[0][index], rel=1e-9)


def test_a_single_class_has_nothing_to_contrast() -> None:
    features, labels = drawn(5, 4), torch.zeros(5, dtype=torch.int64)
    loss = RelaxedContrast(1.0, 0.0, 0.05, 0.7, None)({}, {}, (features,), labels)
    assert float(loss) == 0
    lonely = RelaxedContrast(1.0, 1.0, 0.05, 0.7, None)({}, {}, (features[:1],), labels[:1])
    assert float(lonely) == pytest.approx(0, abs=1e-15)


def test_the_relaxation_is_zero_when_every_pair_of_a_class_is_apart() -> None:
    features = torch.eye(9, dtype=EXACT)  # all cosines are zero
    penalty = RelaxedContrast(0.0, 1.0, 0.05, 0.7, None)
    assert float(penalty({}, {}, (features,), LABELS)) == pytest.approx(0, abs=1e-15)
    assert (
        float(penalty({}, {}, (torch.ones_like(features),), LABELS)) > 0.5
    )  # log 2, but for class 3


def test_the_search_by_blocks_finds_the_extremes_of_the_whole_matrix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pace_study.baselines.fedrcl.BLOCK", 7)
    labels = torch.randint(5, (60,), generator=torch.Generator().manual_seed(2))
    labels[labels == 3] = 4  # a class that does not occur
    unit = torch.nn.functional.normalize(drawn(60, 4))
    least, most = extremes(unit, labels)
    similarity = unit @ unit.t()
    same = labels[:, None] == labels
    apart = similarity.masked_fill(~same | torch.eye(60, dtype=torch.bool), torch.inf)
    assert torch.equal(least, apart.argmin(1))
    nearest = similarity.masked_fill(same, -torch.inf).topk(2).values
    torch.testing.assert_close(similarity.gather(1, most), nearest)


def test_distillations_gap_and_diversity() -> None:
    taught, shares, noise = drawn(3, 6, 4, seed=1), drawn(3, 6, seed=2).abs(), drawn(6, 5, seed=3)

    def gap(logits: Tensor) -> Tensor:
        return distillation.gap(logits, taught, shares)

    def diversity(features: Tensor) -> Tensor:
        return distillation.diversity(noise, features)

    at = drawn(6, 4)
    for loss in (gap, diversity):
        torch.testing.assert_close(gradient(loss, at), slopes(loss, at), rtol=1e-4, atol=1e-8)
    by_hand = sum(
        float(shares[i, v]) * float((at[v] - taught[i, v]).abs().mean())
        for i in range(3)
        for v in range(6)
    )
    assert float(gap(at)) == pytest.approx(by_hand)
    apart = [
        float(((noise[u] - noise[v]) ** 2).mean() * (at[u] - at[v]).abs().mean())
        for u in range(6)
        for v in range(6)
    ]
    assert float(diversity(at)) == pytest.approx(math.exp(-sum(apart) / 36))
