"""What everybody writes: the plain PyG loop, and the other steps in their obvious form."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from safetensors.torch import load, save
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout
from torch_geometric.nn import GCNConv

from pace.gates import calibrate
from pace.graph import Graph
from pace.merging import EPS
from pace.models import GCN
from pace.models.propagation import propagation
from pace.params import Params, add, subtract
from pace.protocol import Message


class Net(torch.nn.Module):
    """Two GCNConv layers, normalised anew in every pass, as PyG's example has them."""

    def __init__(self, gcn: GCN) -> None:
        super().__init__()
        features, hidden, classes = gcn.widths
        self.first = GCNConv(features, hidden)
        self.second = GCNConv(hidden, classes)
        self.dropout = gcn.dropout

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        hidden = dropout(self.first(x, edges).relu(), self.dropout, self.training)
        logits: Tensor = self.second(hidden, edges)
        return logits


def pyg_loop(graph: Graph, gcn: GCN, epochs: int, device: str = "cpu") -> Net:
    """Two GCNConv layers, trained."""
    net = Net(gcn)
    train_loop(net, graph, epochs, device)
    return net


def train_loop(net: torch.nn.Module, graph: Graph, epochs: int, device: str = "cpu") -> None:
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


def pyg_adopt(net: Net, local: Params, correction: Params, graph: Graph) -> float:
    """Load each model into the layers, evaluate both, choose alpha."""
    logits = []
    for params in (local, add(local, correction)):
        names = zip(("first", "second"), ("0", "1"), strict=True)
        state = {}
        for layer, number in names:
            state[f"{layer}.lin.weight"] = params[f"{number}.weight"]
            state[f"{layer}.bias"] = params[f"{number}.bias"]
        net.load_state_dict(state)
        with torch.no_grad():
            logits.append(net.eval()(graph.x, graph.edges)[graph.val])
    return calibrate(logits[0], logits[1], graph.y[graph.val])


def stored(message: Message) -> Message:
    """There and back by safetensors."""
    return load(save(dict(message)))
