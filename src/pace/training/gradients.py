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
from pace.task import targets

Activate = Callable[[Tensor, Tensor, int], Tensor]  # (output, bias, layer) -> hidden activation


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
        return cls(-share * targets(labels, classes).t(), share)


class Gradient:
    """Calling it writes the gradient of the mean cross-entropy at `params` into `gradients`.

        G_L = (softmax(Z_L) - Y) / n,   ∂W_l = G_l^T S_l,   ∂b_l = G_l^T 1,
        G_l = P^T G_l+1 W_l+1 where H_l+1 > 0, zero elsewhere

    `activate` makes a hidden activation of an output, a bias and the number of the layer: ReLU, times
    zeros and ones; the scale of dropout is in the operators above it. Views are made once: on a small
    client they cost as much as the products.
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

    def __call__(self, activate: Activate) -> None:
        hidden, messages = [], []
        output = self.first @ self.inward[0]
        for layer, operator in enumerate(self.above, start=1):
            hidden.append(activate(output, self.biases[layer - 1], layer - 1))
            messages.append(operator @ hidden[-1])
            output = self.linear(messages[-1], layer)
        error = self.error(output)
        for layer in range(len(self.above), 0, -1):
            self.slopes(error, messages.pop(), layer)
            # First the operator, since errors are narrower here than in the layer below.
            spread = self.above[layer - 1].back(error.mT)
            error = self.below(spread, hidden.pop(), layer)
        self.first.back(error.mT, self.first_slope)
        self.alone(error)

    def linear(self, message: Tensor, layer: int) -> Tensor:
        """S_l W_l^T. Logits are laid out by classes, as softmax wants them: two to four times faster."""
        if layer < len(self.above):
            return message @ self.inward[layer]
        return (self.weights[layer].contiguous() @ message.mT).mT

    def error(self, output: Tensor) -> Tensor:
        """G_L^T = (softmax(Z_L) - Y)^T / n of the last outputs, still without their bias."""
        chances = output.add_(self.biases[-1]).mT.contiguous().softmax(-2)
        return torch.addcmul(self.target.minus, chances, self.target.share)

    def slopes(self, error: Tensor, message: Tensor, layer: int) -> None:
        """∂W_l and ∂b_l."""
        torch.matmul(error, message, out=self.weight_slopes[layer])
        torch.sum(error, -1, out=self.bias_slopes[layer])

    def below(self, spread: Tensor, hidden: Tensor, layer: int) -> Tensor:
        """G_l-1^T from P^T G_l."""
        gradient = spread @ self.weights[layer]
        gated: Tensor = torch.ops.aten.threshold_backward(gradient, hidden, 0)
        return gated.mT

    def alone(self, error: Tensor) -> None:
        """∂b_0."""
        torch.sum(error, -1, out=self.bias_slopes[0])
