"""FedTAD's server, against the same steps with modules and one joint graph for all clients."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, l1_loss
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from pace.models.networks import GCN
from pace.params import Params
from pace.protocol.federation import Federation
from pace.protocol.uploads import Messages
from pace_study.baselines import fedtad as distillation
from pace_study.baselines.fedtad import FedTAD
from tests.graphs import CLASSES, FEATURES

GCN_ = GCN((FEATURES, 16, CLASSES))


def models(count: int = 3) -> Messages:
    return Messages(GCN_.start(seed) for seed in range(count))


def randomness() -> torch.Generator:
    return torch.Generator().manual_seed(4)


def test_labels_are_balanced_and_the_last_class_takes_the_rest() -> None:
    assert distillation.balanced(7).bincount().tolist() == [14] * 6 + [16]
    assert distillation.balanced(40).bincount().tolist() == [2] * 39 + [22]
    assert distillation.balanced(1).bincount().tolist() == [100]


def test_the_generator_is_linear_layers_with_tanh_between() -> None:
    params = distillation.untrained(GCN_, randomness())
    noise, labels = torch.randn(100, 32, generator=randomness()), distillation.balanced(CLASSES)
    hidden = torch.cat([params["labels"][labels], noise], dim=1)
    shapes = []
    for layer in range(4):
        width, inputs = params[f"{layer}.weight"].shape
        linear = nn.Linear(inputs, width)
        shapes.append(linear.out_features)
        with torch.no_grad():
            linear.weight.copy_(params[f"{layer}.weight"])
            linear.bias.copy_(params[f"{layer}.bias"])
        hidden = linear(hidden if layer == 0 else torch.tanh(hidden))
        bound = linear.in_features**-0.5
        assert float(linear.weight.detach().abs().max()) <= bound
        assert float(linear.weight.detach().std()) == pytest.approx(bound / 3**0.5, rel=0.1)
    assert shapes == [64, 128, 256, FEATURES]
    torch.testing.assert_close(distillation.generate(params, noise, labels), hidden.detach())


def test_the_pseudo_graph_joins_the_five_most_similar() -> None:
    features = torch.randn(100, 6, generator=randomness())
    unit = features / features.norm(dim=1, keepdim=True)
    joined = torch.zeros(100, 100)
    for node, row in enumerate(unit @ unit.t()):
        joined[node, row.argsort(descending=True)[:5]] = 1
    joined = ((joined + joined.t()) > 0).float()
    edges, weights = gcn_norm(
        joined.nonzero().t(), num_nodes=100
    )  # adds the loops that are missing
    expected = torch.zeros(100, 100).index_put_((edges[1], edges[0]), weights)
    torch.testing.assert_close(distillation.nearest(features), expected)


def test_the_generators_gradient_is_that_of_its_whole_loss() -> None:
    """Client by client through P X, against one graph that holds all clients and the generator."""
    uploads, labels = models(), distillation.balanced(CLASSES)
    student = {name: 0.5 * value for name, value in GCN_.start(9).items()}
    weights = torch.rand(3, CLASSES, generator=randomness())
    shares = weights[:, labels] / labels.bincount()[labels]
    noise = torch.randn(100, 32, generator=randomness())
    ours, theirs = (
        {
            name: value.requires_grad_()
            for name, value in distillation.untrained(GCN_, randomness()).items()
        }
        for _ in range(2)
    )
    distillation.seek(
        ours, noise, labels, shares=shares, student=student, uploads=uploads, gcn=GCN_
    )
    features = distillation.generate(theirs, noise, labels)
    around = distillation.nearest(features.detach())

    def logits(params: Params) -> Tensor:
        hidden = (around @ features @ params["0.weight"].t() + params["0.bias"]).relu()
        return around @ hidden @ params["1.weight"].t() + params["1.bias"]

    loss = torch.zeros(())
    for model, weight in zip(uploads, weights, strict=True):
        own = logits(model)
        for label in range(CLASSES):
            here = labels == label
            loss = loss + weight[label] * cross_entropy(own[here], labels[here])
            loss = loss - weight[label] * l1_loss(logits(student)[here], own[here].detach())
        loss = loss + distillation.diversity(noise, features)
    loss.backward()
    for name, value in ours.items():
        assert value.grad is not None
        torch.testing.assert_close(value.grad, theirs[name].grad, rtol=1e-3, atol=1e-6)


def test_a_round_is_one_generator_step_and_five_of_the_average() -> None:
    """Without dropout, against the same steps written out with optimisers of our own."""
    still = GCN((FEATURES, 16, CLASSES), dropout=0.0)
    agreed = Federation(still, FedTAD(), seed=7)
    uploads, labels = models(), distillation.balanced(CLASSES)
    weights = torch.rand(3, CLASSES, generator=randomness())
    shares = weights[:, labels] / labels.bincount()[labels]
    average = GCN_.start(9)
    found = distillation.distil(average, uploads, weights, rounds=1, federation=agreed)

    random = agreed.random("fedtad distillation")
    generator = {
        name: value.requires_grad_()
        for name, value in distillation.untrained(still, random).items()
    }
    noise = torch.randn(100, 32, generator=random)
    distillation.seek(
        generator, noise, labels, shares=shares, student=average, uploads=uploads, gcn=still
    )
    torch.optim.Adam(generator.values(), lr=1e-3, weight_decay=5e-4).step()
    features = distillation.generate(generator, noise, labels).detach()
    around = distillation.nearest(features)
    leaves = {name: value.clone().requires_grad_() for name, value in average.items()}
    optimiser = torch.optim.Adam(leaves.values(), lr=1e-3, weight_decay=5e-4)

    def logits(params: Params) -> Tensor:
        hidden = (around @ features @ params["0.weight"].t() + params["0.bias"]).relu()
        return around @ hidden @ params["1.weight"].t() + params["1.bias"]

    for _ in range(5):
        loss = torch.zeros(())
        for model, weight in zip(uploads, weights, strict=True):
            for label in range(CLASSES):
                here = labels == label
                loss = loss + weight[label] * l1_loss(logits(leaves)[here], logits(model)[here])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    for name, value in leaves.items():
        assert not torch.equal(found[name], average[name])
        torch.testing.assert_close(found[name], value.detach(), rtol=1e-3, atol=1e-5)


def test_the_average_learns_with_dropout_and_the_clients_teach_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five steps a round; the other passes of a round are the clients' and the generator's."""
    dropped: list[tuple[float, torch.Size]] = []

    def dropout(probability: float, random: torch.Generator) -> Callable[[Tensor], Tensor]:
        def drop(hidden: Tensor) -> Tensor:
            dropped.append((probability, hidden.shape))
            return actual(probability, random)(hidden)

        return drop

    actual = distillation.dropout
    agreed = Federation(GCN_, FedTAD(), seed=7)
    weights = torch.rand(3, CLASSES, generator=randomness())
    average = GCN_.start(9)
    plain = distillation.distil(average, models(), weights, rounds=2, federation=agreed)
    monkeypatch.setattr(distillation, "dropout", dropout)
    watched = distillation.distil(average, models(), weights, rounds=2, federation=agreed)
    assert dropped == [(0.5, torch.Size([100, 16]))] * 10
    assert all(torch.equal(plain[name], watched[name]) for name in plain)
    monkeypatch.setattr(distillation, "dropout", lambda *_: lambda hidden: hidden)
    without = distillation.distil(average, models(), weights, rounds=2, federation=agreed)
    assert not torch.allclose(plain["0.weight"], without["0.weight"], rtol=1e-4)


def test_dropout_zeroes_its_share_and_keeps_the_mean() -> None:
    kept = distillation.dropout(0.25, randomness())(torch.ones(400, 100))
    assert float((kept == 0).float().mean()) == pytest.approx(0.25, abs=0.01)
    assert float(kept.mean()) == pytest.approx(1.0, abs=0.01)
