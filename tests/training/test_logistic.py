"""The baseline a site would have had anyway: against scikit-learn, and by its own optimality."""

import numpy as np
import pytest
import torch

from pace.task import temperature
from pace.training import affine, logistic_regression


def data(
    nodes: int = 150, features: int = 6, classes: int = 3
) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(7)
    x = torch.randn(nodes, features, generator=random)
    scores = x[:, :classes] + torch.randn(nodes, classes, generator=random)
    return x, scores.argmax(1)


@pytest.mark.parametrize("penalty", [1e-3, 1e-1])
@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_scikit_learns(penalty: float, classes: int) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, y = data(classes=classes)
    weights = logistic_regression(x, y, classes, penalty)
    oracle = linear_model.LogisticRegression(C=1 / (len(x) * penalty), tol=1e-10, max_iter=5000)
    if classes == 2:  # two columns of weights ±w/2 cost half of scikit-learn's one column
        oracle.C *= 2
    oracle.fit(x.double().numpy(), y.numpy())
    expected = oracle.predict_proba(x.double().numpy())
    np.testing.assert_allclose(affine(x, weights).softmax(1).numpy(), expected, atol=1e-4)


def test_the_gradient_is_zero() -> None:
    x, y = data()
    weights = logistic_regression(x, y, 3, 0.01)
    residual = affine(x, weights).softmax(1) - torch.nn.functional.one_hot(y, 3)
    slope = x.double().T @ residual / len(x) + 0.01 * weights[:-1]
    assert float(slope.abs().max()) < 1e-5
    assert float(residual.sum(0).abs().max()) / len(x) < 1e-5


def test_a_temperature_undoes_what_logits_were_multiplied_by() -> None:
    random = torch.Generator().manual_seed(1)
    logits = 2 * torch.randn(4000, 4, generator=random, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=random).flatten()
    assert temperature(logits, labels) == pytest.approx(1, abs=0.06)
    for factor in (0.2, 5.0):
        assert temperature(factor * logits, labels) == pytest.approx(factor, rel=0.06)


def test_few_nodes_that_are_all_right_do_not_make_a_model_certain() -> None:
    logits = torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]])
    labels = torch.tensor([0, 1, 0])
    assert 0.9 < temperature(logits, labels) <= 1
    assert temperature(logits[:2], labels[:2]) >= 1
    assert temperature(logits[:0], labels[:0]) == 1
    assert temperature(logits * float("inf"), labels) == 1
