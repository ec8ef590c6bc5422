"""What many models say of every node: on a GPU all clients' models in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pace.graph import Graph
from pace.models.base import Network
from pace.models.gcn import GCN
from pace.params import Params
from pace.training.gpu import cohort
from pace.training.gpu.fields import fields


def logits_of(
    graphs: Sequence[Graph],
    network: Network,
    models: Sequence[Sequence[Params]],
    device: torch.device | str = "cpu",
) -> list[list[Tensor]]:
    """Logits (nodes, classes) of each client's models on its graph, by client and then by model.

    They are on the GPU if they were computed there: cohorts know the GCN on edges that have no
    weights and go both ways, and as many models of every client.
    """
    together = (
        torch.device(device).type == "cuda"
        and isinstance(network, GCN)
        and all(cohort.knows(graph) for graph in graphs)
        and len({len(each) for each in models}) == 1
        and len(models[0]) > 0
    )
    with torch.no_grad():
        if together and isinstance(network, GCN):
            return cohort_logits(graphs, network, models, device)
        return [
            [network(model, graph).logits for model in by_client]
            for graph, by_client in zip(graphs, models, strict=True)
        ]


def cohort_logits(
    graphs: Sequence[Graph],
    gcn: GCN,
    models: Sequence[Sequence[Params]],
    device: torch.device | str,
) -> list[list[Tensor]]:
    """The same in batches of clients that fit on the device together."""
    found: dict[int, list[Tensor]] = {}
    sized = dict(enumerate(models[0]))
    with torch.cuda.device(device) if torch.device(device).type == "cuda" else torch.no_grad():
        for batch in cohort.batches(dict(enumerate(graphs)), sized, device):
            logits = batch_logits(
                [graphs[client] for client in batch],
                gcn,
                [models[client] for client in batch],
                device,
            )
            for client, by_model in zip(batch, logits, strict=True):
                found[client] = [each[: graphs[client].nodes] for each in by_model]
    return [found[client] for client in range(len(graphs))]


def batch_logits(
    graphs: Sequence[Graph],
    gcn: GCN,
    models: Sequence[Sequence[Params]],
    device: torch.device | str,
) -> Tensor:
    """(clients, models, rows of the largest client, classes)."""
    params = {
        name: torch.stack([torch.stack([model[name] for model in each]) for each in models]).to(
            device
        )
        for name in models[0][0]
    }
    everybody = [torch.ones(graph.nodes, dtype=torch.bool) for graph in graphs]
    first, *above = fields(graphs, gcn.layers, 1.0, device, everybody).operators

    def bias(layer: int) -> Tensor:
        return params[f"{layer}.bias"].unsqueeze(2)

    output = first @ params["0.weight"].mT + bias(0)
    for layer, operator in enumerate(above, start=1):
        rows = operator @ output.relu()
        output = rows @ params[f"{layer}.weight"].mT + bias(layer)
    return output
