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
    intercept, which is not penalised. Computed in float64 by L-BFGS; the problem is convex. The slope
    is autograd's, number for number, in fewer calls.
    scikit-learn's C is 1 / (nodes · penalty).
    """
    from scipy.optimize import minimize  # half a second to import

    x, shape = x.double(), (x.shape[1] + 1, classes)
    observed = -task.targets(labels, classes).double() / len(x)

    def objective(flat: Any) -> tuple[float, Any]:
        weights = torch.from_numpy(flat).reshape(shape)
        logits = affine(x, weights)
        value = task.loss(logits, labels) + penalty / 2 * weights[:-1].square().sum()
        logs = logits.log_softmax(1)
        error = torch.ops.aten._log_softmax_backward_data(observed, logs, 1, logs.dtype)
        slope = torch.empty_like(weights)
        torch.mm(x.t(), error, out=slope[:-1])
        slope[:-1] += penalty * weights[:-1]
        torch.sum(error, 0, out=slope[-1])
        return float(value), slope.flatten().numpy()

    options = {"maxiter": STEPS, "ftol": 1e-12, "gtol": 1e-7}
    solver: Any = minimize  # whose types know no function with its gradient
    start = np.zeros(shape[0] * classes)
    solution = solver(objective, start, jac=True, method="L-BFGS-B", options=options)
    return torch.from_numpy(solution.x).reshape(shape)


def affine(x: Tensor, weights: Tensor) -> Tensor:
    """The logits of nodes, (nodes, classes)."""
    return x.double() @ weights[:-1] + weights[-1]
