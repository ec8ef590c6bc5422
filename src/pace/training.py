"""Local training: a fixed budget from the public start, the last checkpoint kept (Section 4.1)."""

import hashlib
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pace.federation import Model, Recipe
from pace.graph import Graph
from pace.params import Params


def train(
    graph: Graph,
    model: Model,
    start: Params,
    *,
    recipe: Recipe,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Tensor]:
    """W_L: `recipe.epochs` full-batch steps on the mean cross-entropy of the training nodes.

    A client without training nodes has nothing to learn and keeps the start. What a client learns
    depends on its graph, the federation and the seed: its dropout noise is its own.
    """
    local = {name: by_columns(value.to(graph.x.device)) for name, value in start.items()}
    anchor = {name: value.clone() for name, value in local.items()}
    if not graph.train.any():
        return anchor
    field = model.field(graph, graph.train)
    labels = graph.training_labels
    noise = Noise(model.dropout, seed, graph)
    optimiser = make_optimiser([value.requires_grad_() for value in local.values()], recipe)
    for epoch in range(recipe.epochs):
        seen = model.forward(local, field, noise)
        loss = cross_entropy(seen.logits, labels)
        if recipe.penalty is not None:
            outputs = tuple(map(torch.Tensor.__getitem__, seen.outputs, field.centers))
            loss = loss + recipe.penalty(local, anchor, outputs, labels)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if recipe.clip is not None:
            torch.nn.utils.clip_grad_norm_(local.values(), recipe.clip)
        optimiser.step()
        if progress is not None:
            progress(epoch + 1)
    return {name: value.detach().contiguous() for name, value in local.items()}


def by_columns(value: Tensor) -> Tensor:
    """A copy in which a matrix lies column by column: the layout of the gradients of A @ W^T."""
    return value.t().contiguous().t() if value.ndim == 2 else value.clone()


def make_optimiser(leaves: list[Tensor], recipe: Recipe) -> torch.optim.Optimizer:
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(
            leaves, recipe.rate, momentum=recipe.momentum, weight_decay=recipe.decay, fused=True
        )
    return torch.optim.Adam(leaves, recipe.rate, weight_decay=recipe.decay, fused=True)


class Noise:
    """Dropout whose draws belong to one client and one seed.

    The stream is keyed by the seed and the client's edges, made on the CPU and kept in bits, so it
    is the same on every device and whoever else trains beside it. A keep probability of one half
    costs one random bit a number; any other is rounded to a multiple of 2^-16.
    """

    def __init__(self, dropout: float, seed: int, graph: Graph) -> None:
        key = hashlib.sha256(f"dropout {seed} {graph.nodes} ".encode())
        key.update(graph.edges.cpu().numpy().tobytes())
        self.bits = np.random.SFC64(np.frombuffer(key.digest(), dtype=np.uint32).tolist())
        self.threshold = round(dropout * 2**16)

    def __call__(self, hidden: Tensor) -> Tensor:
        """Zero with probability `dropout`, scaled so that the mean stays."""
        if self.threshold == 0:
            return hidden
        scale = 2**16 / (2**16 - self.threshold)
        return hidden * (self.keep(hidden.numel()).reshape(hidden.shape).to(hidden.device) * scale)

    def keep(self, count: int) -> Tensor:
        """`count` independent draws, true where a number is kept."""
        fair = self.threshold == 2**15
        words = self.bits.random_raw(-(-count // (64 if fair else 4)))
        if fair:
            return torch.from_numpy(np.unpackbits(words.view(np.uint8), count=count))
        return torch.from_numpy(words.view(np.uint16)[:count] >= self.threshold)
