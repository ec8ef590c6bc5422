"""Clients × seeds as one batch: every kernel serves all of them, a captured graph all steps."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from pace.graph import Graph
from pace.models import GCN, Network
from pace.params import Params, size
from pace.training import Forward
from pace.training.dropout import Dropout, scale
from pace.training.optimiser import Gradient, Optimiser, Recipe, Target
from pace_gpu.blocks import Blocks, Chain, Device, fields, own_kernels
from pace_gpu.masks import DropoutMasks

GRID = 2**16 - 1  # a launch has no more programs across: clients × seeds
WIDEST = 128  # the widest layer above the features whose rows our kernels hold in one tile


def learn(
    graphs: Sequence[Graph], gcn: GCN, starts: Mapping[int, Params], recipe: Recipe, device: Device
) -> dict[int, list[dict[str, Tensor]]]:
    """The local models by seed and client; each equals what `train` gives that client alone."""
    kernels: Any = own_kernels(torch.device(device).type)
    with ThreadPoolExecutor(4) as pool:  # hashing leaves the interpreter free
        rate = gcn.dropout
        streams = pool.map(lambda graph: [Dropout(rate, seed, graph) for seed in starts], graphs)
        (first, *above), rows = fields(graphs, gcn.layers, scale(rate), device)
        dropouts = list(streams)
    start = {  # (clients, seeds, ...)
        name: torch.stack([start[name].to(device) for start in starts.values()]).expand(
            len(graphs), len(starts), *value.shape
        )
        for name, value in next(iter(starts.values())).items()
    }
    optimiser = (Optimiser if kernels is None else kernels.DeviceOptimiser)(start, recipe)
    fused = kernels is not None and isinstance(first, Chain)
    below: Any = kernels.FusedFirstLayer(first, optimiser) if fused else first
    tiled = kernels is not None and max(gcn.widths[1:]) <= WIDEST
    gradient = (kernels.DeviceGradient if tiled else Gradient)(
        optimiser.params, optimiser.gradients, [below, *above], targets(graphs, gcn, device)
    )
    masks = DropoutMasks(dropouts, rows[:-1], gcn.widths[1:-1], recipe.epochs, optimiser.step_count)

    def step() -> None:
        gradient(masks.activate)
        optimiser.step()

    masks.refill()
    captured = masks.step_count.is_cuda and recipe.epochs > 0
    replay = capture(step, optimiser.restart) if captured else step
    for taken in range(recipe.epochs):
        if taken and taken % masks.prefetched_epochs == 0:
            masks.refill()
        replay()
    if fused:
        below.finish()
    local = {name: value.cpu() for name, value in optimiser.result().items()}
    return {
        seed: [
            {name: value[client, index] for name, value in local.items()}
            for client in range(len(graphs))
        ]
        for index, seed in enumerate(starts)
    }


def targets(graphs: Sequence[Graph], gcn: GCN, device: Device) -> Target:
    """The clients' targets as one; a padded centre has no share in the loss."""
    alone = [Target.of(graph.training_labels, gcn.classes) for graph in graphs]
    widest = max(target.share.shape[1] for target in alone)
    minus, share = (
        torch.stack([pad(part, (0, widest - part.shape[1])) for part in parts]).unsqueeze(1)
        for parts in zip(*((target.minus, target.share) for target in alone), strict=True)
    )
    return Target(minus.to(device), share.to(device))


def knows(graph: Graph) -> bool:
    """Whether cohorts can take this graph: edges of one weight that go both ways."""
    return graph.weights is None and not graph.directed


def batches(
    graphs: Mapping[int, Graph], starts: Mapping[int, Params], device: Device
) -> list[list[int]]:
    """The clients by size, in groups that fit on the GPU together by a generous estimate."""
    free, _ = torch.cuda.mem_get_info(device)
    models = 6 * sum(size(start) for start in starts.values())  # values, slopes and Adam's memory
    # Outputs of every layer and seed, messages and gradients, of a step and of its captured twin.
    passing = 64 * sum(
        len(value) for start in starts.values() for value in start.values() if value.ndim == 1
    )
    groups: list[list[int]] = []
    for client, graph in sorted(graphs.items(), key=lambda item: item[1].nodes):
        needed = models + graph.nodes * (24 * graph.features + passing)
        count = len(groups[-1]) + 1 if groups else 1
        if not groups or count * needed > free // 2 or count * len(starts) > GRID:
            groups.append([])
        groups[-1].append(client)
    return groups


def capture(step: Callable[[], None], restart: Callable[[], None]) -> Callable[[], None]:
    """The step as a CUDA graph, after one in which libraries set up and kernels are compiled.

    `torch.cuda.graph` would collect garbage and empty the cache of memory first, which takes long.
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


class CohortForward(Forward):
    """A network on some clients' graphs; what does not depend on a model is made once.

    Logits are on the GPU if they were computed there: cohorts know the GCN on edges that have no
    weights and go both ways, and as many models of every client.
    """

    def __init__(self, graphs: Sequence[Graph], network: Network, device: Device = "cpu") -> None:
        super().__init__(graphs, network, device)
        self.together = self.device.type == "cuda" and all(map(knows, graphs))
        self.operators: dict[tuple[int, ...], tuple[Blocks | Chain, ...]] = {}  # by clients

    @torch.no_grad()
    def __call__(self, models: Sequence[Sequence[Params]]) -> list[list[Tensor]]:
        counts = {len(by_client) for by_client in models}
        gcn = self.network
        if not (self.together and isinstance(gcn, GCN) and len(counts) == 1 and max(counts)):
            return super().__call__(models)
        logits: dict[int, list[Tensor]] = {}
        graphs, sized = dict(enumerate(self.graphs)), dict(enumerate(models[0]))
        with torch.cuda.device(self.device):
            for batch in batches(graphs, sized, self.device):
                rows = self.batch(gcn, batch, [models[client] for client in batch])
                for client, by_model in zip(batch, rows, strict=True):
                    logits[client] = [output[: graphs[client].nodes] for output in by_model]
        return [logits[client] for client in graphs]

    def batch(self, gcn: GCN, clients: Sequence[int], models: Sequence[Sequence[Params]]) -> Tensor:
        """(clients, models, rows of the largest client, classes)."""
        params: dict[str, Tensor] = {}
        for name, like in models[0][0].items():
            stacked = torch.stack([model[name] for by_client in models for model in by_client])
            params[name] = stacked.to(self.device).view(len(models), len(models[0]), *like.shape)
        if (key := tuple(clients)) not in self.operators:
            graphs = [self.graphs[client] for client in clients]
            self.operators[key], _ = fields(graphs, gcn.layers, 1.0, self.device, whole=True)
        first, *above = self.operators[key]
        output = first @ params["0.weight"].mT + params["0.bias"].unsqueeze(2)
        for layer, operator in enumerate(above, start=1):
            weight, bias = params[f"{layer}.weight"].mT, params[f"{layer}.bias"].unsqueeze(2)
            output = operator @ output.relu() @ weight + bias
        return output
