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
from pace.training.gpu.blocks import Blocks, Chain
from pace.training.gpu.fields import fields

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

    def __call__(self, models: Sequence[Sequence[Params]]) -> list[list[Tensor]]:
        counts = {len(by_client) for by_client in models}
        with torch.no_grad():
            if self.together and isinstance(self.network, GCN) and len(counts) == 1 and max(counts):
                with torch.cuda.device(self.device):
                    return self._batches(self.network, models)
            return [
                [self.network(model, graph).logits for model in by_client]
                for graph, by_client in zip(self.graphs, models, strict=True)
            ]

    def _batches(self, gcn: GCN, models: Sequence[Sequence[Params]]) -> list[list[Tensor]]:
        """In groups of clients that fit on the device together."""
        by_client: dict[int, list[Tensor]] = {}
        sized = dict(enumerate(models[0]))
        for batch in cohort.batches(dict(enumerate(self.graphs)), sized, self.device):
            logits = self.batch(gcn, batch, [models[client] for client in batch])
            for client, by_model in zip(batch, logits, strict=True):
                by_client[client] = [rows[: self.graphs[client].nodes] for rows in by_model]
        return [by_client[client] for client in range(len(self.graphs))]

    def batch(self, gcn: GCN, clients: Sequence[int], models: Sequence[Sequence[Params]]) -> Tensor:
        """(clients, models, rows of the largest client, classes)."""
        params: dict[str, Tensor] = {}
        for name, like in models[0][0].items():
            beside = torch.stack([model[name] for by_client in models for model in by_client])
            shape = (len(models), len(models[0]), *like.shape)
            params[name] = beside.to(self.device).view(shape)
        first, *above = self.whole(gcn.layers, clients)

        def bias(layer: int) -> Tensor:
            return params[f"{layer}.bias"].unsqueeze(2)

        output = first @ params["0.weight"].mT + bias(0)
        for layer, operator in enumerate(above, start=1):
            rows = operator @ output.relu()
            output = rows @ params[f"{layer}.weight"].mT + bias(layer)
        return output

    def whole(self, layers: int, clients: Sequence[int]) -> Operators:
        """The constants of a pass over all nodes of these clients."""
        if tuple(clients) not in self.operators:
            graphs = [self.graphs[client] for client in clients]
            all_nodes = [torch.ones(graph.nodes, dtype=torch.bool) for graph in graphs]
            whole = fields(graphs, layers, 1.0, self.device, all_nodes)
            self.operators[tuple(clients)] = whole.operators
        return self.operators[tuple(clients)]
