"""What everybody writes: the plain PyG loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout
from torch_geometric import nn as pyg

from pace.graph import Graph
from pace.models import APPNP, GAT, Model


class Stack(nn.Module):
    """PyG's layers with ReLU and dropout between them, and what may come last."""

    def __init__(self, layers: Sequence[nn.Module], rate: float, last: nn.Module | None) -> None:
        super().__init__()
        self.layers, self.rate, self.last = nn.ModuleList(layers), rate, last

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        for place, layer in enumerate(self.layers):
            if place:
                x = dropout(x.relu(), self.rate, self.training)
            x = layer(x) if isinstance(layer, nn.Linear) else layer(x, edges)
        logits: Tensor = x if self.last is None else self.last(x, edges)
        return logits


def layer(kind: str, model: Model, place: int) -> Any:
    """One of PyG's layers, as its examples write it: SGC's features are cached."""
    wide, out = model.widths[place : place + 2]
    last = place + 2 == len(model.widths)
    if isinstance(model, GAT):
        return pyg.GATConv(wide, model.channels(place), model.heads, concat=not last)
    match kind:
        case "gin":
            inside = wide if last and place else out
            layers = nn.Linear(wide, inside), nn.ReLU(), nn.Linear(inside, out)
            return pyg.GINConv(nn.Sequential(*layers))
        case "sgc":
            return pyg.SGConv(wide, out, K=len(model.widths) - 1, cached=True)
        case _:
            kinds = {"gcn": pyg.GCNConv, "sage": pyg.SAGEConv}
            return kinds.get(kind, nn.Linear)(wide, out)


def network(kind: str, model: Model) -> Stack:
    """The same network of PyG's layers."""
    made = [layer(kind, model, place) for place in range(len(model.widths) - 1)]
    last = pyg.APPNP(K=model.hops, alpha=model.teleport) if isinstance(model, APPNP) else None
    return Stack(made, model.dropout, last)


def train_loop(net: nn.Module, graph: Graph, epochs: int, device: str = "cpu") -> None:
    """Full-batch Adam on the training nodes."""
    net.to(device).train()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    x, edges, y, train = (part.to(device) for part in (graph.x, graph.edges, graph.y, graph.train))
    for _ in range(epochs):
        optimiser.zero_grad()
        cross_entropy(net(x, edges)[train], y[train]).backward()
        optimiser.step()
