"""Recipes, and their steps: a GCN's gradient in closed form, Adam and SGD over one flat buffer.

A gradient is autograd's numbers at a fraction of its calls, a step one kernel however many parameters.
Every tensor of a gradient may have leading dimensions, the clients and seeds of a cohort.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from pace.errors import SettingError
from pace.params import Params
from pace.task import targets

BETAS, EPS = (0.9, 0.999), 1e-8  # Adam's

# Matrices lie input by input, the layout in which A @ W^T and its gradient come and go; those of a
# cohort (clients, seeds, out, in) as (clients, in, seeds, out), so that one product serves all seeds.
STORED = {2: (1, 0), 4: (0, 3, 1, 2)}
SHOWN = {2: (1, 0), 4: (0, 2, 3, 1)}

Activate = Callable[[Tensor, Tensor, int], Tensor]  # (output, bias, layer) -> hidden activation
Penalty = Callable[[Params, Params, tuple[Tensor, ...], Tensor], Tensor]
"""A term of the loss, of parameters, W_0, each layer's outputs at the training nodes, and labels."""


@dataclass(frozen=True)
class Proximal:
    """(μ/2) ‖W - W_0‖² over every parameter, biases too: a step knows its slope, μ (W - W_0)."""

    mu: float

    def __call__(
        self, params: Params, start: Params, outputs: tuple[Tensor, ...], labels: Tensor
    ) -> Tensor:
        distances = [(value - start[name]).square().sum() for name, value in params.items()]
        return self.mu / 2 * torch.stack(distances).sum()


@dataclass(frozen=True)
class Recipe:
    """How a client trains: full-batch steps from W_0, the last checkpoint kept.

    Example:
        >>> from pace import Recipe
        >>> Recipe(epochs=50, optimiser="sgd", momentum=0.9).rate
        0.01
    """

    epochs: int = 100
    """Number of steps."""
    rate: float = 0.01
    """The learning rate."""
    decay: float = 5e-4
    """Weight decay of the coupled kind: decay · W joins the gradient, of biases too."""
    optimiser: str = "adam"
    """`"adam"` or `"sgd"`."""
    momentum: float = 0.0
    """Of SGD."""
    clip: float | None = None
    """The largest norm of a step's whole gradient; None does not clip."""
    penalty: Penalty | None = None
    """A term beside the cross-entropy, such as FedProx's."""

    def __post_init__(self) -> None:
        if self.optimiser not in ("adam", "sgd"):
            raise SettingError(f"optimiser is {self.optimiser!r}, expected 'adam' or 'sgd'")
        if self.epochs < 0:
            raise SettingError(f"epochs is {self.epochs}, expected 0 or more")
        if not 0 < self.rate < math.inf:
            raise SettingError(f"the learning rate is {self.rate}, expected a number above 0")
        if not 0 <= self.decay < math.inf:
            raise SettingError(f"the weight decay is {self.decay}, expected a number of 0 or more")


class Optimiser:
    """Parameters on their way down: `params` and `gradients` are views by name of flat buffers.

    Write the gradients of a loss into `gradients`, then take a `step`. The slope of a proximal term is
    added there if `pulled` says so; autograd has it in the gradients already.
    """

    def __init__(self, start: Params, recipe: Recipe, *, pulled: bool = True) -> None:
        self.recipe = recipe
        self.pull = recipe.penalty.mu if pulled and isinstance(recipe.penalty, Proximal) else 0.0
        self.values = torch.cat([stored(value).reshape(-1) for value in start.values()])
        self.start = self.values.clone()
        self.origin = views(self.start, start)
        self.slope = torch.zeros_like(self.values)
        self.params = views(self.values, start)
        self.gradients = views(self.slope, start)
        self.mean = torch.zeros_like(self.values)
        self.square = torch.zeros_like(self.values)  # of Adam
        self.step_count = torch.zeros((), device=self.values.device)  # where the kernel reads it
        buffers: tuple[list[Tensor], ...] = ([self.values], [self.slope])
        common = {"lr": recipe.rate, "weight_decay": recipe.decay, "maximize": False}
        if recipe.optimiser == "sgd":
            plain = {"dampening": 0.0, "nesterov": False, "is_first_step": False, **common}
            buffers = (*buffers, [self.mean] if recipe.momentum else [])
            self.update = partial(torch._fused_sgd_, *buffers, momentum=recipe.momentum, **plain)
        else:
            buffers = (*buffers, [self.mean], [self.square], [], [self.step_count])
            adam = {"beta1": BETAS[0], "beta2": BETAS[1], "eps": EPS, "amsgrad": False, **common}
            self.update = partial(torch._fused_adam_, *buffers, **adam)

    def step(self) -> None:
        """One update of every parameter by the gradients written last."""
        recipe = self.recipe
        self.step_count += 1
        if self.pull:
            self.slope.add_(self.values - self.start, alpha=self.pull)
        if recipe.clip is not None:
            # As torch.nn.utils.clip_grad_norm_ does it.
            norm = torch.linalg.vector_norm(self.slope)
            self.slope *= (recipe.clip / (norm + 1e-6)).clamp(max=1.0)
        self.update()

    def restart(self, start: Params | None = None) -> None:
        """Forget every step, and begin where it began or at another start."""
        for name, value in (start or {}).items():
            self.origin[name].copy_(value)
        self.values.copy_(self.start)
        for memory in (self.mean, self.square, self.step_count):
            memory.zero_()

    def leaves(self) -> dict[str, Tensor]:
        """The parameters for autograd, which leaves their gradients where a step reads them."""
        leaves = {name: value.detach().requires_grad_() for name, value in self.params.items()}
        for name, leaf in leaves.items():
            leaf.grad = self.gradients[name]
        return leaves

    def result(self) -> dict[str, Tensor]:
        """A copy of the parameters as they are now."""
        return {
            name: value.clone(memory_format=torch.contiguous_format)
            for name, value in self.params.items()
        }


def stored(value: Tensor) -> Tensor:
    """A parameter in the order in which it lies in a buffer."""
    return value.permute(STORED[value.ndim]) if value.ndim in STORED else value


def views(flat: Tensor, like: Params) -> dict[str, Tensor]:
    """The parts of a flat buffer, by name and in the shapes of `like`."""
    parts = flat.split([value.numel() for value in like.values()])
    shown = {}
    for part, (name, value) in zip(parts, like.items(), strict=True):
        block = part.view(stored(value).shape)
        shown[name] = block.permute(SHOWN[value.ndim]) if value.ndim in SHOWN else block
    return shown


@dataclass(frozen=True, eq=False)
class Target:
    """What the centres' logits are compared with; classes come first, where softmax is fastest."""

    minus: Tensor  # (classes, n): -1/n at each centre's label, zero elsewhere
    share: Tensor  # (1, n): 1/n

    @classmethod
    def of(cls, labels: Tensor, classes: int) -> Self:
        share = torch.full((1, len(labels)), 1 / len(labels), device=labels.device)
        return cls(-share * targets(labels, classes).t(), share)


class Gradient:
    """Calling it writes the gradient of the mean cross-entropy at `params` into `gradients`.

        G_L = (softmax(Z_L) - Y) / n,   ∂W_l = G_l^T S_l,   ∂b_l = G_l^T 1,
        G_l = P^T G_l+1 W_l+1 where H_l+1 > 0, zero elsewhere

    An operator A has `A @ H`, and `A.back(G, out)` for A^T G. `activate` makes a hidden activation of
    an output, a bias and the number of the layer: ReLU, times zeros and ones; the scale of dropout is
    in the operators above it. Views are made once: on a small client they cost as much as the products.
    """

    def __init__(
        self, params: Params, gradients: Params, operators: Sequence[Any], target: Target
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
