"""Logistic regression on a node's own columns, without its links: what a site would have had anyway."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pace import task

STEPS = 200  # of the optimiser, at most


def logistic_regression(x: Tensor, labels: Tensor, classes: int, penalty: float) -> Tensor:
    """The minimiser of mean cross-entropy + penalty / 2 · ‖weights‖², (features + 1, classes).

    `x` are the features of labelled nodes, `affine(x, weights)` the logits. The last row is the
    intercept, which is not penalised. Computed in float64 by L-BFGS; the problem is convex.
    scikit-learn's C is 1 / (nodes · penalty).
    """
    from scipy.optimize import minimize  # half a second to import

    x, shape = x.double(), (x.shape[1] + 1, classes)

    def objective(flat: Any) -> tuple[float, Any]:
        weights = torch.tensor(flat, dtype=torch.float64).reshape(shape).requires_grad_()
        value = task.loss(affine(x, weights), labels) + penalty / 2 * weights[:-1].square().sum()
        value.backward()
        assert weights.grad is not None
        return float(value.detach()), weights.grad.flatten().numpy()

    options = {"maxiter": STEPS, "ftol": 1e-12, "gtol": 1e-7}
    solver: Any = minimize  # whose types know no function with its gradient
    start = np.zeros(shape[0] * classes)
    solution = solver(objective, start, jac=True, method="L-BFGS-B", options=options)
    return torch.from_numpy(solution.x).reshape(shape)


def affine(x: Tensor, weights: Tensor) -> Tensor:
    """The logits of nodes, (nodes, classes)."""
    return x.double() @ weights[:-1] + weights[-1]
