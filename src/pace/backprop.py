"""The gradient of a GCN's training loss in closed form: autograd's numbers at a fraction of its calls.

Every tensor may have leading dimensions, the clients and seeds of a cohort: nothing here knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from pace.params import Params


class Linear(Protocol):
    """A constant A: `A @ H`, and its gradient A^T G."""

    def __matmul__(self, dense: Tensor) -> Tensor: ...
    def back(self, gradient: Tensor, out: Tensor | None = None) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Target:
    """What the centres' logits are compared with; classes come first, where softmax is fastest."""

    minus: Tensor  # (classes, n): -1/n at each centre's label, zero elsewhere
    share: Tensor  # (1, n): 1/n

    @classmethod
    def of(cls, labels: Tensor, classes: int) -> Target:
        share = torch.full((1, len(labels)), 1 / len(labels), device=labels.device)
        return cls(-share * torch.nn.functional.one_hot(labels, classes).t(), share)

    def error(self, logits: Tensor) -> Tensor:
        """∂/∂z of the mean cross-entropy, transposed: (softmax(z) - onehot)^T / n."""
        chances = logits.mT.contiguous().softmax(-2)
        return torch.addcmul(self.minus, chances, self.share)


class Backprop:
    """Calling it writes the gradient of the mean cross-entropy at `params` into `gradients`.

        G_L = (softmax(Z_L) - Y) / n,   ∂W_l = G_l^T S_l,   ∂b_l = G_l^T 1,
        G_l = P^T G_l+1 W_l+1 where H_l+1 > 0, zero elsewhere

    `drop` multiplies a hidden activation in place by zeros and ones; the scale of dropout is in the
    operators above it. Views are made once: on a small client they cost as much as the products.
    """

    def __init__(
        self, params: Params, gradients: Params, operators: Sequence[Linear], target: Target
    ) -> None:
        layers = range(len(operators))
        self.first, *self.above = operators
        self.target = target
        self.weights = [params[f"{layer}.weight"] for layer in layers]
        self.inward = [weight.mT for weight in self.weights]
        self.biases = [params[f"{layer}.bias"].unsqueeze(-2) for layer in layers]
        self.weight_slopes = [gradients[f"{layer}.weight"] for layer in layers]
        self.first_slope = self.weight_slopes[0].mT
        self.bias_slopes = [gradients[f"{layer}.bias"] for layer in layers]

    def __call__(self, drop: Callable[[Tensor], Tensor]) -> None:
        hidden, messages = [], []
        output = (self.first @ self.inward[0]).add_(self.biases[0])
        for layer, operator in enumerate(self.above, start=1):
            hidden.append(drop(output.clamp_min_(0)))
            messages.append(operator @ hidden[-1])
            output = (messages[-1] @ self.inward[layer]).add_(self.biases[layer])
        error = self.target.error(output)
        for layer in range(len(self.above), 0, -1):
            torch.matmul(error, messages.pop(), out=self.weight_slopes[layer])
            torch.sum(error, -1, out=self.bias_slopes[layer])
            # First the operator, since errors are narrower here than in the layer below.
            below = self.above[layer - 1].back(error.mT) @ self.weights[layer]
            error = torch.ops.aten.threshold_backward(below, hidden.pop(), 0).mT
        self.first.back(error.mT, self.first_slope)
        torch.sum(error, -1, out=self.bias_slopes[0])
