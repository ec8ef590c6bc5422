"""A PACE model as plain PyTorch: of this folder, nothing but torch and NumPy is needed.

    from network import load
    model, about = load("FOLDER")
    probabilities = model(x, edge_index).softmax(1)

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


class Edges:
    """Where edges begin and end, with self-loops of some weight at the end: a sparse matrix."""

    def __init__(self, edge_index, nodes, values, loops):
        self.nodes, self.values = nodes, values
        self.source, self.target = edge_index[0], edge_index[1]
        if loops is not None:
            own = torch.arange(nodes, device=edge_index.device)
            self.source, self.target = torch.cat([self.source, own]), torch.cat([self.target, own])
            self.values = torch.cat([values, torch.full_like(own, loops, dtype=values.dtype)])

    def sum(self, rows):
        """Of rows, one an edge, the sum at every target."""
        out = rows.new_zeros((self.nodes, rows.shape[1]))
        return out.index_add(0, self.target, rows)

    def times(self, rows):
        """A H."""
        return self.sum(self.values[:, None] * rows[self.source])


def propagation(edge_index, edge_weight, nodes):
    """P = D^-1/2 (A + I) D^-1/2."""
    edges = Edges(edge_index, nodes, edge_weight, 1.0)
    root = edges.sum(edges.values[:, None])[:, 0].rsqrt()
    edges.values = edges.values * root[edges.source] * root[edges.target]
    return edges


class Layered(nn.Module):
    """H_l+1 = ReLU(layer_l(H_l)), logits last. A kind says what its layers are and what they do."""

    def __init__(self, widths, **settings):
        super().__init__()
        self.settings, self.depth = settings, len(widths) - 1
        pairs = itertools.pairwise(widths)
        self.layers = nn.ModuleList(
            self.layer(before, after, place + 1 == self.depth)
            for place, (before, after) in enumerate(pairs)
        )

    def layer(self, before, after, last):
        return nn.Linear(before, after)

    def edges(self, edge_index, edge_weight, nodes):
        return propagation(edge_index, edge_weight, nodes)

    def step(self, layer, hidden, edges, last):
        return layer(hidden)

    def forward(self, x, edge_index, edge_weight):
        edges = self.edges(edge_index, edge_weight, x.shape[0])
        for place, layer in enumerate(self.layers):
            last = place + 1 == self.depth
            x = self.step(layer, x, edges, last)
            x = x if last else x.relu()
        return x


class GCN(Layered):
    def step(self, layer, hidden, edges, last):
        return edges.times(hidden @ layer.weight.T) + layer.bias


class Headed(GCN):
    """A GCN whose last layer reads no edge."""

    def step(self, layer, hidden, edges, last):
        return layer(hidden) if last else super().step(layer, hidden, edges, last)


class SAGE(Layered):
    def layer(self, before, after, last):
        parts = {"neighbours": nn.Linear(before, after), "root": nn.Linear(before, after, False)}
        return nn.ModuleDict(parts)

    def edges(self, edge_index, edge_weight, nodes):
        edges = Edges(edge_index, nodes, torch.ones_like(edge_weight), None)
        degree = edges.sum(edges.values[:, None])[:, 0]
        edges.values = 1 / degree[edges.target]
        return edges

    def step(self, layer, hidden, edges, last):
        return layer["neighbours"](edges.times(hidden)) + layer["root"](hidden)


class GIN(Layered):
    def layer(self, before, after, last):
        inside = before if last and self.depth > 1 else after
        return nn.ModuleDict(
            {"mlp": nn.ModuleList([nn.Linear(before, inside), nn.Linear(inside, after)])}
        )

    def edges(self, edge_index, edge_weight, nodes):
        own = 1 + self.settings["epsilon"]
        return Edges(edge_index, nodes, torch.ones_like(edge_weight), own)

    def step(self, layer, hidden, edges, last):
        lower, upper = layer["mlp"]
        return upper(lower(edges.times(hidden)).relu())


class Attention(nn.Module):
    def __init__(self, before, after, heads, last):
        super().__init__()
        wide = after if last else after // heads
        self.weight = nn.Parameter(torch.empty(heads * wide, before))
        self.bias = nn.Parameter(torch.empty(after))
        shape = (1, heads, wide)
        self.attention = nn.ParameterDict(
            {end: nn.Parameter(torch.empty(shape)) for end in ("source", "target")}
        )


class GAT(Layered):
    def layer(self, before, after, last):
        return Attention(before, after, int(self.settings["heads"]), last)

    def edges(self, edge_index, edge_weight, nodes):
        return Edges(edge_index, nodes, torch.ones_like(edge_weight), 1.0)

    def step(self, layer, hidden, edges, last):
        ends = layer.attention
        heads, wide = ends["source"].shape[1:]
        split = (hidden @ layer.weight.T).view(-1, heads, wide)
        scores = (split * ends["source"]).sum(2)[edges.source]
        scores = scores + (split * ends["target"]).sum(2)[edges.target]
        scores = torch.nn.functional.leaky_relu(scores, 0.2)
        target = edges.target[:, None].expand(-1, heads)
        peaks = scores.new_zeros((edges.nodes, heads))
        peaks = peaks.scatter_reduce(0, target, scores, "amax", include_self=False)
        weights = (scores - peaks[edges.target]).exp()
        weights = weights / edges.sum(weights)[edges.target]
        said = (weights[:, :, None] * split[edges.source]).view(-1, heads * wide)
        summed = edges.sum(said)
        joined = summed.view(-1, heads, wide).mean(1) if last else summed
        return joined + layer.bias


class SGC(Layered):
    def layer(self, before, after, last):
        return nn.ModuleDict({"hops": nn.Linear(before, after)})

    def step(self, layer, hidden, edges, last):
        for _ in range(int(self.settings["hops"])):
            hidden = edges.times(hidden)
        return layer["hops"](hidden)


class MLP(Layered):
    name = "linear"

    def layer(self, before, after, last):
        return nn.ModuleDict({self.name: nn.Linear(before, after)})

    def step(self, layer, hidden, edges, last):
        return layer[self.name](hidden)


class APPNP(MLP):
    name = "predict"

    def step(self, layer, hidden, edges, last):
        own = walk = super().step(layer, hidden, edges, last)
        if last:
            back = self.settings["teleport"]
            for _ in range(int(self.settings["hops"])):
                walk = (1 - back) * edges.times(walk) + back * own
        return walk


class Ridge(Layered):
    """10 h W: a linear model on rows of length one, P^k of the features' signed roots."""

    def layer(self, before, after, last):
        return nn.Linear(before, after, bias=False)

    def step(self, layer, hidden, edges, last):
        rows = hidden.sign() * hidden.abs().sqrt()
        for _ in range(int(self.settings["hop"])):
            rows = edges.times(rows)
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
    "appnp": APPNP,
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
            weight * self.part(place, x, edge_index, edge_weight)
            for place, weight in enumerate(self.weights)
            if weight
        ]
        return sum(logits[1:], start=logits[0])

    def local(self, x, edge_index, edge_weight=None):
        """What the site's own model says."""
        return self.part(0, x, edge_index, edge_weight)

    def part(self, place, x, edge_index, edge_weight):
        ones = x.new_ones(edge_index.shape[1])
        return self.parts[place](x, edge_index, ones if edge_weight is None else edge_weight)


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
