import math

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv

from pace.errors import SettingError
from pace.graph import Graph
from pace.models.networks import GCN
from pace.models.propagation import propagation
from tests.graphs import CLASSES, FEATURES, clients

DEPTHS = [(FEATURES, CLASSES), (FEATURES, 16, CLASSES), (FEATURES, 16, 8, CLASSES)]


def pyg_layers(params: dict[str, Tensor]) -> list[GCNConv]:
    """PyG's layers with the same parameters."""
    layers = []
    for layer in range(len(params) // 2):
        weight, bias = params[f"{layer}.weight"], params[f"{layer}.bias"]
        conv = GCNConv(weight.shape[1], weight.shape[0])
        conv.lin.weight.data, conv.bias.data = weight.clone(), bias.clone()
        layers.append(conv)
    return layers


def pyg_logits(layers: list[GCNConv], graph: Graph) -> Tensor:
    hidden = graph.x
    for conv in layers[:-1]:
        hidden = conv(hidden, graph.edges).relu()
    logits: Tensor = layers[-1](hidden, graph.edges)
    return logits


@pytest.mark.parametrize("widths", DEPTHS)
def test_logits_and_gradients_are_pygs(widths: tuple[int, ...]) -> None:
    graph = clients(1)[0]
    gcn = GCN(widths)
    params = {name: value + 0.01 for name, value in gcn.start(3).items()}
    layers = pyg_layers(params)
    theirs = pyg_logits(layers, graph)
    leaves = {name: value.requires_grad_() for name, value in params.items()}
    ours = gcn(leaves, graph).logits
    torch.testing.assert_close(ours, theirs)

    weight = torch.rand(ours.shape, generator=torch.Generator().manual_seed(0))
    (ours * weight).sum().backward()
    (theirs * weight).sum().backward()
    for layer, conv in enumerate(layers):
        torch.testing.assert_close(leaves[f"{layer}.weight"].grad, conv.lin.weight.grad)
        torch.testing.assert_close(leaves[f"{layer}.bias"].grad, conv.bias.grad)


@pytest.mark.parametrize("widths", DEPTHS)
def test_the_receptive_field_gives_the_centres_logits(widths: tuple[int, ...]) -> None:
    graph = clients(1)[0]
    gcn = GCN(widths)
    params = gcn.start(3)
    whole = gcn(params, graph)
    part = gcn.forward(params, gcn.field(graph, graph.train))
    torch.testing.assert_close(part.logits, whole.logits[graph.train])
    field = gcn.field(graph, graph.train)
    for output, places, full in zip(part.outputs, field.centers, whole.outputs, strict=True):
        torch.testing.assert_close(output[places], full[graph.train])
    assert field.operators[0].shape[0] <= graph.nodes


def test_a_pass_keeps_what_each_layer_multiplied() -> None:
    graph = clients(1)[0]
    gcn = GCN((FEATURES, 16, 8, CLASSES))
    seen = gcn(gcn.start(3), graph)
    operator = propagation(graph).matrix.to_dense()
    everyone = torch.arange(graph.nodes)
    assert set(seen.inputs) == {"0.weight", "1.weight", "2.weight"}
    for name, rows in seen.inputs.items():
        hidden = seen.unpropagated[name][everyone]
        torch.testing.assert_close(rows[everyone], operator @ hidden)


def test_the_start_is_glorot_and_its_seeds() -> None:
    gcn = GCN((400, 64, 7))
    start = gcn.start(1)
    bound = math.sqrt(6 / 464)
    weight = start["0.weight"]
    assert weight.shape == (64, 400)
    assert 0.95 * bound < weight.abs().max() <= bound
    assert abs(float(weight.std()) - bound / math.sqrt(3)) < 0.01 * bound
    assert not start["0.bias"].any()
    assert not start["1.bias"].any()
    assert torch.equal(weight, gcn.start(1)["0.weight"])
    assert not torch.equal(weight, gcn.start(2)["0.weight"])


@pytest.mark.parametrize(
    "make", [lambda: GCN((5,)), lambda: GCN((5, 0, 2)), lambda: GCN((5, 2), dropout=1.0)]
)
def test_impossible_networks_are_refused(make: object) -> None:
    with pytest.raises(SettingError):
        make()  # type: ignore[operator]
