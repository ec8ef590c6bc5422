import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score
from torch import Tensor
from torch.nn.functional import one_hot

from pace.task import (
    accuracy,
    calibration_error,
    counted,
    macro_f1,
    mean_auc,
    pooled,
    reliability,
    roc_auc,
    weighted_f1,
)


def confusion(guess: Tensor, truth: Tensor, classes: int) -> Tensor:
    return counted(one_hot(guess, classes).float(), truth, classes)


@given(st.integers(1, 60), st.integers(2, 8), st.integers(1, 8), st.integers(0, 9999))
@settings(max_examples=80)
def test_scores_are_scikit_learns_also_with_absent_classes(
    nodes: int, classes: int, present: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    present = min(present, classes)
    truth = torch.randint(present, (nodes,), generator=generator)
    guess = torch.randint(classes, (nodes,), generator=generator)
    counts = confusion(guess, truth, classes)
    every = list(range(classes))
    assert (counts.numpy() == confusion_matrix(truth, guess, labels=every)).all()
    assert accuracy(counts) == pytest.approx(accuracy_score(truth, guess))
    for ours, average in ((weighted_f1, "weighted"), (macro_f1, "macro")):
        theirs = f1_score(truth, guess, labels=every, average=average, zero_division=0)
        assert ours(counts) == pytest.approx(theirs)


def test_pooling_is_scoring_all_nodes_together() -> None:
    truth, guess = torch.tensor([0, 1, 1, 2, 0, 2]), torch.tensor([0, 1, 2, 2, 1, 2])
    parts = [confusion(guess[:2], truth[:2], 3), confusion(guess[2:], truth[2:], 3)]
    assert torch.equal(pooled(parts), confusion(guess, truth, 3))


def test_no_test_nodes_score_zero() -> None:
    nothing = torch.zeros(0, dtype=torch.int64)
    counts = confusion(nothing, nothing, 3)
    assert accuracy(counts) == weighted_f1(counts) == macro_f1(counts) == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40))
def test_roc_auc_is_the_share_of_pairs_in_order(nodes: list[tuple[int, bool]]) -> None:
    scores = torch.tensor([float(score) for score, _ in nodes])
    truth = torch.tensor([int(label) for _, label in nodes])
    ones = [score for score, label in nodes if label]
    zeros = [score for score, label in nodes if not label]
    found = roc_auc(scores, truth)
    if not ones or not zeros:
        assert found is None
        return
    pairs = [(one > zero) + (one == zero) / 2 for one in ones for zero in zeros]
    assert found == pytest.approx(sum(pairs) / len(pairs))


def test_clients_count_by_their_nodes_and_those_of_one_class_do_not() -> None:
    assert mean_auc([0.5, 1.0, None], [10, 30, 99]) == pytest.approx(0.875)
    assert mean_auc([None], [3]) is None


@given(st.integers(1, 80), st.integers(2, 6), st.integers(0, 9999))
@settings(max_examples=40)
def test_bins_are_scikit_learns_and_the_error_is_their_mean_distance(
    nodes: int, classes: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(nodes, classes, generator=generator)
    truth = torch.randint(classes, (nodes,), generator=generator)
    bins = reliability(logits, truth)
    confidence, called = logits.double().softmax(1).max(1)
    hits = (called == truth).numpy()
    right, sure = calibration_curve(hits, confidence.numpy(), n_bins=10, strategy="uniform")
    full = [each for each in bins if each.nodes]
    assert [each.hits / each.nodes for each in full] == pytest.approx(list(right))
    assert [each.confidence for each in full] == pytest.approx(list(sure), abs=1e-6)
    assert sum(each.nodes for each in full) == nodes
    distances = [
        each.nodes / nodes * abs(a - b) for each, a, b in zip(full, right, sure, strict=True)
    ]
    assert calibration_error(bins) == pytest.approx(sum(distances), abs=1e-6)


def test_a_model_that_is_always_sure_and_right_has_no_calibration_error() -> None:
    truth = torch.tensor([0, 1, 1])
    bins = reliability(1000 * torch.eye(2)[truth], truth)
    assert [each.nodes for each in bins] == [0] * 9 + [3]
    assert calibration_error(bins) == 0
    assert calibration_error(reliability(torch.zeros(0, 2), truth[:0])) == 0
    assert reliability(torch.full((3, 2), torch.nan), truth)[0].nodes == 3
