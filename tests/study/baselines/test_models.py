"""The networks FedPub and FedAux bring, against dense ones built from PyG layers."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv

from pace.errors import SettingError
from pace.graph import Graph
from pace.models.networks import GCN
from pace.params import Params
from pace_study.baselines.fedaux import FedAux, basis, smoothed
from pace_study.baselines.fedpub import FedPub, proxy
from tests.graphs import CLASSES, FEATURES, clients, federation

GRAPH = clients(1)[0]
SHARED = GCN((FEATURES, 16, CLASSES))
PUB, AUX = FedPub().network(SHARED), FedAux().network(SHARED)


def perturbed(start: Params) -> dict[str, Tensor]:
    """Parameters off the start, some masks close to zero."""
    random = torch.Generator().manual_seed(1)
    params = {
        name: value + 0.3 * torch.randn(value.shape, generator=random)
        for name, value in start.items()
    }
    for name, value in params.items():
        if name.endswith(".mask"):
            value.view(-1)[::5] = 5e-4  # counts as zero in evaluation only
    return params


def convolution(weight: Tensor, bias: Tensor) -> Any:
    layer = GCNConv(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        layer.lin.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer


def embedding(params: Params, graph: Graph, masks: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Two PyG convolutions with masked weights: the output of the second, and its ReLU."""
    hidden = graph.x
    for layer in ("0", "1"):
        weight = params[f"{layer}.weight"] * masks.get(layer, torch.ones(()))
        output = convolution(weight, params[f"{layer}.bias"])(hidden, graph.edges)
        hidden = output.relu()
    return output, hidden


@pytest.mark.parametrize("evaluation", [True, False])
def test_fedpubs_network_is_two_masked_convolutions_and_a_masked_head(evaluation: bool) -> None:
    params = perturbed(PUB.start(3))
    masks = {layer: params[f"{layer}.mask"] for layer in ("0", "1", "head")}
    if evaluation:
        masks = {layer: mask * (mask.abs() >= 1e-3) for layer, mask in masks.items()}
    output, hidden = embedding(params, GRAPH, masks)
    expected = hidden @ (params["head.weight"] * masks["head"]).t() + params["head.bias"]
    seen = PUB(params, GRAPH) if evaluation else PUB.forward(params, PUB.field(GRAPH))
    torch.testing.assert_close(seen.logits, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(seen.outputs[-2], output, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", [PUB, AUX], ids=["fedpub", "fedaux"])
def test_masks_start_at_one_and_the_heads_bias_does_not_start_at_zero(model: Any) -> None:
    start = model.start(3)
    assert {name for name in start if name.endswith("mask")} == {"0.mask", "1.mask", "head.mask"}
    assert all((start[name] == 1).all() for name in start if name.endswith("mask"))
    assert not start["1.bias"].any()
    assert start["head.bias"].all()


@pytest.mark.parametrize("model", [PUB, AUX], ids=["fedpub", "fedaux"])
def test_a_mask_entry_below_a_thousandth_is_zero_in_evaluation_alone(model: Any) -> None:
    """Just below it counts as zero, just above as it is."""
    params = perturbed(model.start(3))
    for entry, pruned in ((9.9e-4, True), (1.01e-3, False)):
        masks = {name: value for name, value in params.items() if name.endswith(".mask")}
        few = {name: torch.where(value == 5e-4, entry, value) for name, value in masks.items()}
        none = {name: torch.where(value == 5e-4, 0.0, value) for name, value in masks.items()}
        seen, cut = model({**params, **few}, GRAPH), model({**params, **none}, GRAPH)
        assert torch.equal(seen.logits, cut.logits) is pruned
        field = model.field(GRAPH)
        trained = model.forward({**params, **few}, field)
        assert not torch.equal(trained.logits, model.forward({**params, **none}, field).logits)


def test_fedauxs_line_starts_in_the_positive_orthant_for_everyone() -> None:
    line = AUX.start(3)["line"]
    assert line.shape == (16,)
    assert line.min() >= 0
    assert line.max() <= 1
    assert torch.equal(line, AUX.start(3)["line"])
    assert AUX.start(3)["head.weight"].shape == (CLASSES, 32)


def kernel_smoothed(hidden: Tensor, line: Tensor, sigma: float) -> Tensor:
    """D^-1 κ H with the whole matrix, in float64."""
    hidden, line = hidden.double(), line.double()
    norms = hidden.norm(dim=1).clamp_min(1e-8) * line.norm()
    place = hidden @ line / norms
    kernel: Tensor = (-((place[:, None] - place) ** 2) / sigma**2).exp()
    return kernel @ hidden / kernel.sum(1, keepdim=True)


@pytest.mark.parametrize("evaluation", [True, False])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 10.0])
def test_fedauxs_masked_network_smooths_with_the_dense_kernel(
    sigma: float, evaluation: bool
) -> None:
    model = FedAux(sigma=sigma).network(SHARED)
    params = perturbed(model.start(3))
    masks = {layer: params[f"{layer}.mask"] for layer in ("0", "1", "head")}
    if evaluation:
        masks = {layer: mask * (mask.abs() >= 1e-3) for layer, mask in masks.items()}
    _, hidden = embedding(params, GRAPH, masks)
    smooth = kernel_smoothed(hidden, params["line"], sigma).float()
    both = torch.cat([hidden, smooth], dim=1)
    expected = both @ (params["head.weight"] * masks["head"]).t() + params["head.bias"]
    seen = model(params, GRAPH) if evaluation else model.forward(params, model.field(GRAPH))
    torch.testing.assert_close(seen.logits, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("sigma", [0.2, 0.5, 1.0, 3.0])
def test_the_series_is_the_kernel_to_rounding(sigma: float) -> None:
    place = torch.linspace(-1, 1, 81)
    waves = basis(place, sigma)
    exact = (-((place[:, None].double() - place.double()) ** 2) / sigma**2).exp()
    assert float((waves @ waves.t() - exact).abs().max()) < 5e-6


def test_the_gradient_of_the_series_is_the_kernels() -> None:
    """In place and in H, against autograd through the dense matrix."""
    random = torch.Generator().manual_seed(0)
    hidden = torch.randn(30, 5, generator=random, dtype=torch.float64)
    place = torch.rand(30, generator=random, dtype=torch.float64) * 2 - 1
    place[0] = 0.0  # where a power's derivative needs care
    goal = torch.tensor([3, 0, 7])
    slopes = []
    for dense in (False, True):
        h, s = hidden.clone().requires_grad_(), place.clone().requires_grad_()
        if dense:
            kernel = (-((s[:, None] - s) ** 2)).exp()
            out = (kernel @ h / kernel.sum(1, keepdim=True))[goal]
        else:
            out = smoothed(h, s, goal, 1.0)
        (out**2).sum().backward()
        slopes.append((h.grad, s.grad))
    for ours, theirs in zip(*slopes, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


def test_fedaux_needs_a_kernel_that_does_not_underflow() -> None:
    with pytest.raises(SettingError, match=r"0\.2 or more"):
        FedAux(sigma=0.1)


@pytest.mark.parametrize("model", [PUB, AUX], ids=["fedpub", "fedaux"])
def test_a_pass_over_the_training_field_gives_the_training_rows(model: Any) -> None:
    params = perturbed(model.start(3))
    whole = model.forward(params, model.field(GRAPH))
    field = model.field(GRAPH, GRAPH.train)
    part = model.forward(params, field)
    torch.testing.assert_close(part.logits, whole.logits[GRAPH.train], rtol=1e-4, atol=1e-5)
    for ours, place, theirs in zip(part.outputs, field.centers, whole.outputs, strict=True):
        torch.testing.assert_close(ours[place], theirs[GRAPH.train], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", [PUB, AUX], ids=["fedpub", "fedaux"])
def test_dropout_acts_twice_in_training(model: Any) -> None:
    seen: list[torch.Size] = []

    def drop(hidden: Tensor) -> Tensor:
        seen.append(hidden.shape)
        return hidden

    model.forward(model.start(3), model.field(GRAPH), drop)
    assert seen == [torch.Size([90, 16])] * 2


def test_the_proxy_graph_is_five_random_blocks_of_a_hundred() -> None:
    first, second = proxy(federation(FedPub())), proxy(federation(FedPub(), seed=8))
    again = proxy(federation(FedPub()))
    source, target = first.edges
    assert first.nodes == 500
    assert torch.equal(source // 100, target // 100)
    assert 0.09 < first.edges.shape[1] / (5 * 100 * 99) < 0.11
    assert abs(float(first.x.mean())) < 0.03
    assert abs(float(first.x.std()) - 1) < 0.03
    assert torch.equal(first.x, again.x)
    assert torch.equal(first.edges, again.edges)
    assert not torch.equal(first.x, second.x)


def test_fedpubs_embedding_is_the_mean_of_the_second_convolution_on_the_proxy() -> None:
    agreed = federation(FedPub())
    local = perturbed(agreed.start)
    upload = agreed.method.share(local, GRAPH, agreed)
    masks = {layer: local[f"{layer}.mask"] for layer in ("0", "1")}
    masks = {layer: mask * (mask.abs() >= 1e-3) for layer, mask in masks.items()}
    output, _ = embedding(local, proxy(agreed), masks)
    torch.testing.assert_close(upload["embedding"], output.mean(0), rtol=1e-4, atol=1e-5)
