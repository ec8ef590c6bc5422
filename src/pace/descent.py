"""Adam and SGD over one flat buffer, in place: a step is one kernel however many parameters."""

import torch
from torch import Tensor

from pace.federation import Recipe
from pace.params import Params

BETAS, EPS = (0.9, 0.999), 1e-8  # Adam's

# Matrices lie input by input, the layout in which A @ W^T and its gradient come and go; those of a
# cohort (clients, seeds, out, in) as (clients, in, seeds, out), so that one product serves all seeds.
STORED = {2: (1, 0), 4: (0, 3, 1, 2)}
SHOWN = {2: (1, 0), 4: (0, 2, 3, 1)}


class Descent:
    """Parameters on their way down: `params` and `gradients` are views by name of flat buffers.

    Whoever writes the gradients of a loss into `gradients` may then take a `step`.
    """

    def __init__(self, start: Params, recipe: Recipe) -> None:
        self.recipe = recipe
        self.values = torch.cat([stored(value).reshape(-1) for value in start.values()])
        self.start = self.values.clone()
        self.slope = torch.zeros_like(self.values)
        self.params = views(self.values, start)
        self.gradients = views(self.slope, start)
        self.mean = torch.zeros_like(self.values)
        self.square = torch.zeros_like(self.values)  # of Adam
        self.taken = torch.zeros((), device=self.values.device)  # steps, where the kernel reads it

    def step(self) -> None:
        """One update of every parameter by the gradients written last."""
        recipe = self.recipe
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
        self.taken += 1
        torch._fused_adam_(
            [self.values],
            [self.slope],
            [self.mean],
            [self.square],
            [],
            [self.taken],
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
        for memory in (self.mean, self.square, self.taken):
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
