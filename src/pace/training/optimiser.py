"""Adam and SGD over one flat buffer, in place: a step is one kernel however many parameters."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pace.params import Params
from pace.training.gpu.blocks import Sparse, own_kernels
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
        if recipe.optimiser == "sgd":
            torch._fused_sgd_(
                [self.values],
                [self.slope],
                [self.mean] if recipe.momentum else [],
                weight_decay=recipe.decay,
                momentum=recipe.momentum,
                lr=recipe.rate,
                dampening=0.0,
                nesterov=False,
                maximize=False,
                is_first_step=False,
            )
            return
        torch._fused_adam_(
            [self.values],
            [self.slope],
            [self.mean],
            [self.square],
            [],
            [self.step_count],
            lr=recipe.rate,
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=recipe.decay,
            eps=EPS,
            amsgrad=False,
            maximize=False,
        )

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


class DeviceOptimiser(Optimiser):
    """The same steps by kernels of ours. The values of the first parameter may be stepped apart."""

    betas, eps = BETAS, EPS

    def __init__(self, start: Params, recipe: Recipe) -> None:
        super().__init__(start, recipe)
        self.kernels: Any = own_kernels(self.values.device.type)
        self.apart = 0  # how many values are stepped elsewhere
        powers = torch.arange(1, recipe.epochs + 1, dtype=torch.float64)[:, None]
        first, second = (1 - torch.tensor(BETAS, dtype=torch.float64) ** powers).unbind(1)
        corrections = torch.stack([first, second.sqrt()], 1).float()
        self.corrections = corrections.to(self.values.device)  # of Adam's bias, by step

    def step(self) -> None:
        self.kernels.flat_step(self, self.apart)
        self.step_count += 1

    def step_along(self, matrix: Sparse, dense: Tensor) -> None:
        """Step the first values along the gradient matrix @ dense, which is never written down."""
        self.kernels.rows_step(matrix, dense, self)

    def idle(self, count: int) -> Tensor:
        """Where the first values of the start end if their gradient is zero in every step."""
        ended: Tensor = self.kernels.idle(self, count)
        return ended


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
