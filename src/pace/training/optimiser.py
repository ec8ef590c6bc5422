"""Adam and SGD over one flat buffer, in place: a step is one kernel however many parameters."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from pace.params import Params
from pace.training.recipe import Recipe

BETAS, EPS = (0.9, 0.999), 1e-8  # Adam's

# Matrices lie input by input, the layout in which A @ W^T and its gradient come and go; those of a
# cohort (clients, seeds, out, in) as (clients, in, seeds, out), so that one product serves all seeds.
STORED = {2: (1, 0), 4: (0, 3, 1, 2)}
SHOWN = {2: (1, 0), 4: (0, 2, 3, 1)}


@dataclass(frozen=True)
class Proximal:
    """(μ/2) ‖W - W_0‖² over every parameter, biases too: a step knows its slope, μ (W - W_0)."""

    mu: float

    def __call__(
        self, params: Params, start: Params, outputs: tuple[Tensor, ...], labels: Tensor
    ) -> Tensor:
        distances = [(value - start[name]).square().sum() for name, value in params.items()]
        return self.mu / 2 * torch.stack(distances).sum()


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

    def restart(self) -> None:
        """Forget every step."""
        self.values.copy_(self.start)
        for memory in (self.mean, self.square, self.step_count):
            memory.zero_()

    def result(self) -> dict[str, Tensor]:
        """The parameters where they stand now, as tensors of their own."""
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
