"""Logistic regression on a node's own columns, without its links: what a site would have had anyway."""

from typing import Any

import torch
from torch import Tensor

from pace import task

STEPS = 200  # of the optimiser, at most


def logistic_regression(x: Tensor, labels: Tensor, classes: int, penalty: float) -> Tensor:
    """The minimiser of mean cross-entropy + penalty / 2 · ‖weights‖², (features + 1, classes).

    The last row is the intercept, which is not penalised. Computed in float64 by L-BFGS; the problem is
    convex. scikit-learn's C is 1 / (nodes · penalty).

    Args:
        x: features of the labelled nodes, (nodes, features).
        labels: their classes, (nodes,).
        classes: how many there are.
        penalty: above 0.

    Returns:
        Weights; `affine(x, weights)` are the logits.
    """
    from scipy.optimize import minimize  # half a second to import

    x, shape = x.double(), (x.shape[1] + 1, classes)

    def objective(flat: Any) -> tuple[float, Any]:
        weights = torch.tensor(flat, dtype=torch.float64).reshape(shape).requires_grad_()
        value = task.loss(affine(x, weights), labels) + penalty / 2 * weights[:-1].square().sum()
        value.backward()
        assert weights.grad is not None
        return float(value.detach()), weights.grad.flatten().numpy()

    start = torch.zeros(shape[0] * classes, dtype=torch.float64).numpy()
    options = {"maxiter": STEPS, "ftol": 1e-12, "gtol": 1e-7}
    solver: Any = minimize  # whose types know no function with its gradient
    solution = solver(objective, start, jac=True, method="L-BFGS-B", options=options)
    return torch.from_numpy(solution.x).reshape(shape)


def affine(x: Tensor, weights: Tensor) -> Tensor:
    """The logits of nodes, (nodes, classes)."""
    return x.double() @ weights[:-1] + weights[-1]
