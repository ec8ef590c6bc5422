"""Training clients × seeds as one batch: every kernel serves all of them, a captured graph all steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from pace.backprop import Backprop, Target
from pace.blocks import together
from pace.descent import Descent
from pace.federation import Recipe
from pace.graph import Graph
from pace.noise import Noise
from pace.operator import Operator, Product
from pace.params import Params, size

WARM_UP = 2  # steps before a capture, in which libraries set up their workspaces


@dataclass(frozen=True, eq=False)
class Lesson:
    """What one client learns from: the constants of its receptive field, its labels and its noise."""

    operators: tuple[Operator | Product, ...]  # with the scale of dropout, where they follow it
    target: Target
    noise: Callable[[int], Noise]  # by seed


def learn(
    lessons: Sequence[Lesson],
    starts: Mapping[int, Params],
    recipe: Recipe,
    device: torch.device | str,
) -> dict[int, list[dict[str, Tensor]]]:
    """Where each client ends, by seed: what it would have learnt alone."""
    levels = zip(*(lesson.operators for lesson in lessons), strict=True)
    operators = [together(level).to(device) for level in levels]
    descent = Descent(stacked(list(starts.values()), len(lessons), device), recipe)
    target = side_by_side([lesson.target for lesson in lessons], device)
    backprop = Backprop(descent.params, descent.gradients, operators, target)
    masks = Masks(lessons, list(starts), descent.params, recipe.epochs)

    def step() -> None:
        backprop(masks.next())
        descent.step()

    def restart() -> None:
        descent.restart()
        masks.epoch.zero_()

    repeat(step, recipe.epochs, restart, descent.values.is_cuda)
    local = {name: value.cpu() for name, value in descent.result().items()}
    return {
        seed: [
            {name: value[client, place] for name, value in local.items()}
            for client in range(len(lessons))
        ]
        for place, seed in enumerate(starts)
    }


class Masks:
    """The dropout noise of every member and epoch, in bits on the device of the parameters.

    An epoch's place is a number on the device, so that a captured step moves on by itself.
    """

    def __init__(
        self, lessons: Sequence[Lesson], seeds: Sequence[int], params: Params, epochs: int
    ) -> None:
        rows = [[operator.shape[1] for operator in lesson.operators[1:]] for lesson in lessons]
        self.widths = [params[f"{layer}.bias"].shape[-1] for layer in range(len(rows[0]))]
        packed = [
            np.zeros((epochs, len(lessons), max(tall), len(seeds), -(-width // 8)), dtype=np.uint8)
            for tall, width in zip(zip(*rows, strict=True), self.widths, strict=True)
        ]

        def fill(member: tuple[int, int]) -> None:
            client, place = member
            noise = lessons[client].noise(seeds[place])
            shapes = list(zip(rows[client], self.widths, strict=True))
            for whole, part in zip(packed, noise.packed(epochs, shapes), strict=True):
                whole[:, client, : part.shape[1], place] = part

        self.active = lessons[0].noise(seeds[0]).threshold > 0
        if self.active:
            members = product(range(len(lessons)), range(len(seeds)))
            with ThreadPoolExecutor() as pool:  # drawing and copying leave the interpreter free
                list(pool.map(fill, members))
        device = params["0.bias"].device
        self.packed = [torch.from_numpy(whole).to(device) for whole in packed]
        self.powers = torch.tensor([128, 64, 32, 16, 8, 4, 2, 1], dtype=torch.uint8, device=device)
        self.epoch = torch.zeros(1, dtype=torch.int64, device=device)

    def next(self) -> Callable[[Tensor], Tensor]:
        """The masks of the next epoch, to be applied layer by layer."""
        drawn = [whole.index_select(0, self.epoch)[0] for whole in self.packed]
        self.epoch += 1
        left = iter(zip(drawn, self.widths, strict=True))

        def mask_(hidden: Tensor) -> Tensor:
            if not self.active:
                return hidden
            bits, width = next(left)
            keep = (bits.unsqueeze(-1) & self.powers).ne(0).flatten(-2)[..., :width]
            return hidden.mul_(keep.transpose(1, 2))

        return mask_


def batches(
    graphs: Mapping[int, Graph], starts: Mapping[int, Params], device: torch.device | str
) -> list[list[int]]:
    """The clients in groups that fit on the GPU together, by a generous estimate of their bytes."""
    free, _ = torch.cuda.mem_get_info(device)
    models = 6 * sum(size(start) for start in starts.values())  # values, slopes and Adam's memory
    made: list[list[int]] = []
    room = 0
    for client in sorted(graphs, key=lambda each: graphs[each].nodes):  # like sizes need no padding
        graph = graphs[client]
        needed = models + 4 * graph.nodes * (graph.features + 1024 * len(starts))
        room -= needed
        if room < 0:
            made.append([])
            room = free // 2 - needed
        made[-1].append(client)
    return made


def repeat(
    step: Callable[[], None], times: int, restart: Callable[[], None], captured: bool
) -> None:
    """Take a step so many times; on a GPU as a graph, launched at once in place of kernel by kernel."""
    if not captured or times == 0:
        for _ in range(times):
            step()
        return
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(WARM_UP):
            restart()
            step()
        restart()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(times):
        graph.replay()


def stacked(
    starts: Sequence[Params], clients: int, device: torch.device | str
) -> dict[str, Tensor]:
    """W_0 of every seed at every client: (clients, seeds, ...)."""
    return {
        name: torch.stack([start[name].to(device) for start in starts])
        .unsqueeze(0)
        .expand(clients, *(len(starts), *value.shape))
        for name, value in starts[0].items()
    }


def side_by_side(targets: Sequence[Target], device: torch.device | str) -> Target:
    """The clients' targets as one; a padded centre has no share in the loss."""
    widest = max(target.share.shape[1] for target in targets)
    minus, share = (
        torch.stack([pad(part, (0, widest - part.shape[1])) for part in parts]).unsqueeze(1)
        for parts in zip(*((target.minus, target.share) for target in targets), strict=True)
    )
    return Target(minus.to(device), share.to(device))
