"""The logits of many models at every node: on a GPU all clients' models in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pace.graph import Graph
from pace.models.base import Network
from pace.models.gcn import GCN
from pace.params import Params
from pace.training.gpu import cohort
from pace.training.gpu.blocks import Blocks, Chain, fields

Operators = tuple[Blocks | Chain, ...]


class Forward:
    """A network on some clients' graphs; what does not depend on a model is made once.

    Calling it gives the logits (nodes, classes) of each client's models, by client and then by model.
    They are on the GPU if they were computed there: cohorts know the GCN on edges that have no weights
    and go both ways, and as many models of every client.
    """

    def __init__(
        self, graphs: Sequence[Graph], network: Network, device: torch.device | str = "cpu"
    ) -> None:
        self.graphs, self.network, self.device = graphs, network, torch.device(device)
        self.together = self.device.type == "cuda" and all(map(cohort.knows, graphs))
        self.operators: dict[tuple[int, ...], Operators] = {}  # by clients

    @torch.no_grad()
    def __call__(self, models: Sequence[Sequence[Params]]) -> list[list[Tensor]]:
        counts = {len(by_client) for by_client in models}
        gcn = self.network
        if not (self.together and isinstance(gcn, GCN) and len(counts) == 1 and max(counts)):
            return [
                [self.network(model, graph).logits for model in by_client]
                for graph, by_client in zip(self.graphs, models, strict=True)
            ]
        logits: dict[int, list[Tensor]] = {}
        graphs, sized = dict(enumerate(self.graphs)), dict(enumerate(models[0]))
        with torch.cuda.device(self.device):
            for batch in cohort.batches(graphs, sized, self.device):
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
        first, *above = self.whole(gcn.layers, clients)
        output = first @ params["0.weight"].mT + params["0.bias"].unsqueeze(2)
        for layer, operator in enumerate(above, start=1):
            weight, bias = params[f"{layer}.weight"].mT, params[f"{layer}.bias"].unsqueeze(2)
            output = operator @ output.relu() @ weight + bias
        return output

    def whole(self, layers: int, clients: Sequence[int]) -> Operators:
        """The constants of a pass over all nodes of these clients."""
        key = tuple(clients)
        if key not in self.operators:
            graphs = [self.graphs[client] for client in clients]
            all_nodes = [torch.ones(graph.nodes, dtype=torch.bool) for graph in graphs]
            self.operators[key], _ = fields(graphs, layers, 1.0, self.device, all_nodes)
        return self.operators[key]
