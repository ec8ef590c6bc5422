"""Training clients × seeds as one batch: every kernel serves all of them, a captured graph all steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from pace.graph import Graph
from pace.models.gcn import GCN
from pace.params import Params, size
from pace.training.dropout import Dropout, DropoutMasks, scale
from pace.training.gpu.blocks import Chain, Sparse, beside, own_kernels
from pace.training.gpu.fields import fields
from pace.training.gradients import WIDEST, DeviceGradient, Gradient, Linear, Target
from pace.training.optimiser import DeviceOptimiser, Optimiser
from pace.training.recipe import Recipe

GRID = 2**16 - 1  # a launch has no more programs across: clients × seeds


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """What one client learns from: its graph, its labels and its dropout."""

    graph: Graph
    target: Target
    dropout: Callable[[int], Dropout]  # by seed


def learn(
    training_sets: Sequence[TrainingSet],
    gcn: GCN,
    starts: Mapping[int, Params],
    recipe: Recipe,
    device: torch.device | str,
) -> dict[int, list[dict[str, Tensor]]]:
    """Train all clients and seeds in one batch.

    Returns:
        The local models by seed, one for each client; each equals what `train` gives that client alone.
    """
    kind = torch.device(device).type
    graphs = [training_set.graph for training_set in training_sets]
    with ThreadPoolExecutor(4) as pool:  # hashing leaves the interpreter free
        keyed = pool.map(
            lambda training_set: [training_set.dropout(seed) for seed in starts], training_sets
        )
        found = fields(graphs, gcn.layers, scale(gcn.dropout), device)
        dropouts = list(keyed)
    start = start_batch(list(starts.values()), len(training_sets), device)
    first: Linear
    first, *above = found.operators
    optimiser: Optimiser
    if own_kernels(kind) is None:
        optimiser = Optimiser(start, recipe)
    else:
        optimiser = DeviceOptimiser(start, recipe)
        if isinstance(first, Chain):
            first = FusedFirstLayer(first, optimiser)
    target = side_by_side([training_set.target for training_set in training_sets], device)
    parts = (optimiser.params, optimiser.gradients, [first, *above], target)
    tiled = own_kernels(kind) is not None and max(gcn.widths[1:]) <= WIDEST
    gradient = DeviceGradient(*parts) if tiled else Gradient(*parts)
    masks = DropoutMasks(
        dropouts, found.rows[:-1], gcn.widths[1:-1], recipe.epochs, optimiser.step_count
    )

    def step() -> None:
        gradient(masks.activate)
        optimiser.step()

    repeat(step, recipe.epochs, optimiser.restart, masks)
    if isinstance(first, FusedFirstLayer):
        first.finish()
    local = {name: fetched(value) for name, value in optimiser.result().items()}
    return {
        seed: [
            {name: value[client, place] for name, value in local.items()}
            for client in range(len(training_sets))
        ]
        for place, seed in enumerate(starts)
    }


@dataclass(frozen=True, eq=False)
class FusedFirstLayer:
    """P X in sparse factors whose gradient is stepped along at once, in place of being written down.

    An input column that is zero in a client's whole field has no gradient and is left out of the
    steps: it decays by itself, in the same way at every client.
    """

    factors: Chain
    optimiser: DeviceOptimiser

    def __post_init__(self) -> None:
        self.optimiser.apart = self.optimiser.params["0.weight"].numel()

    @property
    def words(self) -> Sparse:
        """X^T: a row for each input column of each client."""
        matrix = self.factors.right.matrix
        assert isinstance(matrix, Sparse)
        return matrix.transposed

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self.factors @ dense

    def back(self, gradient: Tensor, out: Tensor | None = None) -> Tensor:
        """Take the step that the gradient asks for."""
        spread = self.factors.left.back(gradient)
        self.optimiser.step_along(self.words, beside(spread).flatten(0, 1))
        return gradient

    def finish(self) -> None:
        """Put the idle columns where they end."""
        clients = self.factors.left.clients
        weight = self.optimiser.values[: self.optimiser.apart].view(clients, -1)
        idle = self.optimiser.idle(weight.shape[1])
        active = (self.words.lengths > 0).view(clients, -1, 1)
        rows = weight.view(*active.shape[:2], -1)
        rows.copy_(torch.where(active, rows, idle.view(rows.shape[1:])))


def knows(graph: Graph) -> bool:
    """Whether cohorts can take this graph: edges of one weight that go both ways."""
    return graph.weights is None and not graph.directed


def batches(
    graphs: Mapping[int, Graph], starts: Mapping[int, Params], device: torch.device | str
) -> list[list[int]]:
    """The clients in groups that fit on the GPU together, by a generous estimate of their bytes.

    They come by size, and each is padded to the largest of its group, which is the last.
    """
    free, _ = torch.cuda.mem_get_info(device)
    models = 6 * sum(size(start) for start in starts.values())  # values, slopes and Adam's memory
    # Outputs of every layer and seed, messages and gradients, of a step and of its captured twin.
    passing = 64 * sum(
        len(value) for start in starts.values() for value in start.values() if value.ndim == 1
    )
    made: list[list[int]] = []
    for client in sorted(graphs, key=lambda each: graphs[each].nodes):
        graph = graphs[client]
        needed = models + graph.nodes * (24 * graph.features + passing)
        count = len(made[-1]) + 1 if made else 1
        if not made or count * needed > free // 2 or count * len(starts) > GRID:
            made.append([])
        made[-1].append(client)
    return made


def repeat(
    step: Callable[[], None], times: int, restart: Callable[[], None], masks: DropoutMasks
) -> None:
    """Take a step so many times; on a GPU as a graph, launched at once in place of kernel by kernel."""
    captured = masks.step_count.is_cuda and times > 0
    replay = step
    masks.refill()
    if captured:
        replay = capture(step, restart)
    for taken in range(times):
        if taken and taken % masks.prefetched_epochs == 0:
            masks.refill()
        replay()


def capture(step: Callable[[], None], restart: Callable[[], None]) -> Callable[[], None]:
    """The step as a CUDA graph, after one in which libraries set up and kernels are compiled.

    `torch.cuda.graph` would collect garbage and empty the cache of memory first: a long time beside
    a training of milliseconds.
    """
    graph = torch.cuda.CUDAGraph()
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        step()
        restart()
        graph.capture_begin()
        step()
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(aside)
    return graph.replay


def fetched(value: Tensor) -> Tensor:
    """The tensor on the CPU, by way of pinned memory: the driver's own way is slower."""
    if not value.is_cuda:
        return value
    return torch.empty(value.shape, pin_memory=True).copy_(value).clone()


def start_batch(
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
