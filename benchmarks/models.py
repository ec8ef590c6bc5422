"""Training of every model against the plain loop over PyG's layers of the same kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor, nn
from torch.nn.functional import dropout
from torch_geometric import nn as pyg

from benchmarks import peers
from benchmarks.clock import Row, compared
from benchmarks.measure import EPOCHS, fresh, whole_budget
from pace.graph import Graph
from pace.models import APPNP, GAT, MODELS, Model, sized
from pace.protocol import SEED
from pace.training import Recipe, train_cohort

HIDDEN, LAYERS = 64, 2


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
        made = pyg.SGConv(wide, out, K=LAYERS, cached=True)
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


def training(
    name: str, graphs: Sequence[Graph], features: int, classes: int, *, device: str, turns: int
) -> Iterator[Row]:
    """From client graphs to local models, one seed; what is constant is made anew in every turn."""
    placed = [graph.to(device) for graph in graphs]
    for kind in MODELS:
        model = sized(kind, features, HIDDEN, LAYERS, classes)

        def ours(model: Model = model) -> None:
            again = [fresh(graph) for graph in graphs]
            train_cohort(
                again,
                model,
                {SEED: model.start(SEED)},
                recipe=Recipe(epochs=EPOCHS),
                device=device,
            )

        def loop(epochs: int, kind: str = kind, model: Model = model) -> None:
            for graph in placed:
                peers.train_loop(network(kind, model), graph, epochs, device)

        peer = ("the plain loop over PyG's layers", whole_budget(loop, device))
        yield compared(f"training {kind}", name, ours, peer, turns=turns)
