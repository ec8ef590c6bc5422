"""A federation whose network is a torch module of one's own: PyG's layers, PACE's moments."""

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv, LayerNorm

from pace import Federation, Pace, adopt, fit, from_torch, merge
from pace.datasets import divide, load


class Net(torch.nn.Module):
    """Two convolutions with a norm between them, and a shortcut past both."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = GCNConv(features, 32), GCNConv(32, classes)
        self.norm = LayerNorm(32)
        self.shortcut = torch.nn.Linear(features, classes, bias=False)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.dropout(self.norm(self.first(x, edge_index)).relu())
        logits: Tensor = self.second(hidden, edge_index) + self.shortcut(x)
        return logits


def main() -> None:
    dataset = load("synthetic:nodes=900")
    graphs = divide(dataset, "louvain", 3)  # each stays at its site
    model = from_torch(Net, dataset.graph.features, dataset.classes)
    print("averaged:", ", ".join(model.averaged))
    federation = Federation(model, Pace(), epochs=60)

    kept, uploads = zip(*(fit(graph, federation) for graph in graphs), strict=True)
    returns = merge(uploads, federation)
    for graph, mine, returned in zip(graphs, kept, returns, strict=True):
        adoption = adopt(graph, mine, returned, federation)
        scores = [
            float((logits.argmax(1) == graph.y)[graph.test].float().mean())
            for logits in (adoption.local, adoption.logits)
        ]
        print(f"alpha {adoption.alpha:.2f}, test accuracy {scores[0]:.3f} -> {scores[1]:.3f}")


if __name__ == "__main__":
    main()
