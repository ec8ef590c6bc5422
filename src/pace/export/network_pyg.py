"""A PACE model as PyTorch Geometric's own layers: of this folder, torch and PyG are all that is needed.

    from network import load
    model, about = load("FOLDER")
    probabilities = model(data.x, data.edge_index).softmax(1)

x holds the features in the order of about["features"], (nodes, features). edge_index is (2, edges): each
edge from its first row to its second, in both directions unless directions matter, once and without
self-loops. Column c of the result is the class about["classes"][c].
"""

import itertools
import json
import pathlib

import numpy
import torch
from torch import nn
from torch_geometric.nn import APPNP, GATConv, GCNConv, GINConv, SAGEConv, SGConv


class Layered(nn.Module):
    """H_l+1 = ReLU(layer_l(H_l)), logits last. A kind says what its layers are."""

    weighted = False  # whether layers read edge weights

    def __init__(self, widths, **settings):
        super().__init__()
        self.settings, self.depth = settings, len(widths) - 1
        pairs = itertools.pairwise(widths)
        self.layers = nn.ModuleList(
            self.layer(before, after, place + 1 == self.depth)
            for place, (before, after) in enumerate(pairs)
        )

    def step(self, layer, hidden, edges, last):
        return layer(hidden, *(edges if self.weighted else edges[:1]))

    def forward(self, x, edge_index, edge_weight):
        for place, layer in enumerate(self.layers):
            last = place + 1 == self.depth
            x = self.step(layer, x, (edge_index, edge_weight), last)
            x = x if last else x.relu()
        return x


class GCN(Layered):
    weighted = True

    def layer(self, before, after, last):
        return GCNConv(before, after)


class Headed(GCN):
    """A GCN whose last layer reads no edge."""

    def layer(self, before, after, last):
        return nn.Linear(before, after) if last else super().layer(before, after, last)

    def step(self, layer, hidden, edges, last):
        return layer(hidden) if last else super().step(layer, hidden, edges, last)


class SAGE(Layered):
    def layer(self, before, after, last):
        return SAGEConv(before, after)


class GIN(Layered):
    def layer(self, before, after, last):
        inside = before if last and self.depth > 1 else after
        perceptron = nn.Sequential(nn.Linear(before, inside), nn.ReLU(), nn.Linear(inside, after))
        return GINConv(perceptron, eps=self.settings["epsilon"])


class GAT(Layered):
    def layer(self, before, after, last):
        heads = self.settings["heads"]
        wide = after if last else after // heads
        return GATConv(before, wide, heads, concat=not last)


class SGC(Layered):
    weighted = True

    def layer(self, before, after, last):
        return SGConv(before, after, self.settings["hops"])


class MLP(Layered):
    def layer(self, before, after, last):
        return nn.Linear(before, after)

    def step(self, layer, hidden, edges, last):
        return layer(hidden)


class Walked(MLP):
    """A perceptron whose predictions travel by personalised PageRank."""

    def __init__(self, widths, **settings):
        super().__init__(widths, **settings)
        self.walk = APPNP(settings["hops"], settings["teleport"])

    def forward(self, x, edge_index, edge_weight):
        return self.walk(super().forward(x, edge_index, edge_weight), edge_index, edge_weight)


class Ridge(MLP):
    """10 h W: a linear model on rows of length one, P^k of the features' signed roots."""

    def __init__(self, widths, **settings):
        super().__init__(widths, **settings)
        self.walk = APPNP(settings["hop"], 0.0)  # never going back, it is P^k

    def layer(self, before, after, last):
        return nn.Linear(before, after, bias=False)

    def step(self, layer, hidden, edges, last):
        rows = self.walk(hidden.sign() * hidden.abs().sqrt(), *edges)
        return self.settings["scale"] * layer(
            rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-12)
        )


KINDS = {
    "gcn": GCN,
    "headed": Headed,
    "sage": SAGE,
    "gin": GIN,
    "gat": GAT,
    "sgc": SGC,
    "appnp": Walked,
    "mlp": MLP,
    "ridge": Ridge,
}


class Adopted(nn.Module):
    """What the site uses: the weighted sum of the logits of Local, first, and of what came back."""

    def __init__(self, parts):
        super().__init__()
        self.parts = nn.ModuleList(
            KINDS[part["kind"]](part["widths"], **part["settings"]) for part in parts
        )
        self.weights = [part["weight"] for part in parts]

    def forward(self, x, edge_index, edge_weight=None):
        logits = [
            weight * part(x, edge_index, edge_weight)
            for weight, part in zip(self.weights, self.parts, strict=True)
            if weight
        ]
        return sum(logits[1:], start=logits[0])

    def local(self, x, edge_index, edge_weight=None):
        """What the site's own model says."""
        return self.parts[0](x, edge_index, edge_weight)


def load(folder):
    """The model, ready to be asked, and what model.json says about it."""
    path = pathlib.Path(folder)
    about = json.loads((path / "model.json").read_text(encoding="utf-8"))
    model = Adopted(about["parts"])
    model.load_state_dict(torch.load(path / "weights.pt", weights_only=True))
    return model.eval().requires_grad_(False), about


def load_graph(path):
    """x, edge_index and edge_weight of a graph.npz."""
    with numpy.load(path, allow_pickle=False) as found:
        return [torch.from_numpy(found[name]) for name in ("x", "edge_index", "edge_weight")]
