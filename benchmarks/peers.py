"""What everybody writes: the plain PyG loop, and the other steps in their obvious form."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout
from torch_geometric import nn as pyg

from pace.gates import calibrate
from pace.graph import Graph
from pace.merging import EPS
from pace.models import APPNP, GAT, GCN, Model
from pace.models.propagation import propagation
from pace.params import Params, add, subtract
from pace.protocol import Message


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


def layer(kind: str, model: Model, place: int) -> nn.Module:
    """One of PyG's layers, as its examples write it: SGC's features are cached."""
    wide, out = model.widths[place : place + 2]
    last = place + 2 == len(model.widths)
    if kind == "sage":
        made: nn.Module = pyg.SAGEConv(wide, out)
    elif kind == "gin":
        inside = wide if last and place else out
        made = pyg.GINConv(
            nn.Sequential(nn.Linear(wide, inside), nn.ReLU(), nn.Linear(inside, out))
        )
    elif isinstance(model, GAT):
        made = pyg.GATConv(wide, model.channels(place), model.heads, concat=not last)
    elif kind == "sgc":
        made = pyg.SGConv(wide, out, K=len(model.widths) - 1, cached=True)
    elif kind == "gcn":
        made = pyg.GCNConv(wide, out)
    else:
        made = nn.Linear(wide, out)
    return made


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


def dense_merge(uploads: Sequence[Message], start: Params, rank: int) -> list[dict[str, Tensor]]:
    """RegMean of dense updates, then one SVD a receiver."""
    updates = [
        {
            name: upload[name]
            if name in upload
            else upload[f"{name}/L"].double() @ upload[f"{name}/R"].double()
            for name in start
        }
        for upload in uploads
    ]
    shared = {}
    for name in start:
        weights = [
            upload[f"{name}/m"].double() + EPS if f"{name}/m" in upload else torch.ones(())
            for upload in uploads
        ]
        pairs = zip(updates, weights, strict=True)
        total = torch.stack([update[name] * weight for update, weight in pairs]).sum(0)
        shared[name] = total / torch.stack(weights).sum(0)
    returns = []
    for update in updates:
        returned = {}
        for name, gap in subtract(shared, update).items():
            if gap.ndim == 2 and min(gap.shape) > rank:
                left, values, right = torch.linalg.svd(gap.float(), full_matrices=False)
                returned[f"{name}/L"] = left[:, :rank]
                returned[f"{name}/R"] = values[:rank, None] * right[:rank]
            else:
                returned[name] = gap
        returns.append(returned)
    return returns


def dense_moments(local: Params, graph: Graph, gcn: GCN) -> list[Tensor]:
    """S_0 = P X and S_1 = P H of every node, dense, then the squares of the training rows."""
    spread = propagation(graph).matrix
    first = spread @ graph.x
    hidden = (first @ local["0.weight"].t() + local["0.bias"]).relu()
    return [message[graph.train].square().mean(0) for message in (first, spread @ hidden)]


def pyg_adopt(net: Stack, local: Params, correction: Params, graph: Graph) -> float:
    """Load each model into the layers, evaluate both, choose alpha."""
    logits = []
    for params in (local, add(local, correction)):
        state = {}
        for number in range(len(net.layers)):
            state[f"layers.{number}.lin.weight"] = params[f"{number}.weight"]
            state[f"layers.{number}.bias"] = params[f"{number}.bias"]
        net.load_state_dict(state)
        with torch.no_grad():
            logits.append(net.eval()(graph.x, graph.edges)[graph.val])
    return calibrate(logits[0], logits[1], graph.y[graph.val])


def stored(message: Message) -> Message:
    """There and back by safetensors."""
    return load(save(dict(message)))
