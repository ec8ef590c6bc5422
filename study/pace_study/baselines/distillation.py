"""Distillation without data: FedTAD's generator, its pseudo-graph and the steps of the average."""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pace.models import GCN, Field, Operator
from pace.params import Params
from pace.protocol import Federation, Uploads
from pace.task import losses
from pace.training import Optimiser, Recipe
from pace_study.baselines.masked import only_gcn

NODES, NOISE, NEAREST = 100, 32, 5  # of the pseudo-graph: nodes, noise a node, neighbours
HIDDEN = (64, 128, 256)  # of the generator
ADAM = Recipe(rate=1e-3)  # of both the generator and the average
STEPS = 5  # of the average, for one of the generator


def distil(
    average: Params, uploads: Uploads, weights: Tensor, *, rounds: int, federation: Federation
) -> dict[str, Tensor]:
    """The average after `rounds` × 5 steps towards the clients on generated graphs.

        Σ_i Σ_c r_ic mean|z - z_i|, over the pseudo-nodes of class c

    r are the clients' `weights` (K, C), z the logits of the average, with dropout, and z_i a
    client's. One client's model at a time is in memory.
    """
    gcn = only_gcn(federation.model, "FedTAD")
    random = federation.random("fedtad distillation")
    labels = balanced(gcn.classes)
    shares = weights[:, labels] / labels.bincount()[labels]  # (K, nodes): r_ic / size of class c
    search, optimiser = Optimiser(untrained(gcn, random), ADAM), Optimiser(average, ADAM)
    generator, student = leaves(search), leaves(optimiser)
    for _ in range(rounds):
        noise = torch.randn(NODES, NOISE, generator=random)
        search.slope.zero_()
        seek(generator, noise, labels, shares=shares, student=student, uploads=uploads, gcn=gcn)
        search.step()
        with torch.no_grad():
            found = generate(generator, noise, labels)
            around = nearest(found)
            field = pseudo_field(around @ found, around, gcn)
            taught = torch.stack([gcn.forward(upload, field).logits for upload in uploads])
        for _ in range(STEPS):
            seen = gcn.forward(student, field, dropout(gcn.dropout, random))
            optimiser.slope.zero_()
            gap(seen.logits, taught, shares).backward()
            optimiser.step()
    return optimiser.result()


def leaves(optimiser: Optimiser) -> dict[str, Tensor]:
    """The parameters of a optimiser for autograd, which leaves their gradients where it reads them."""
    found = {name: value.detach().requires_grad_() for name, value in optimiser.params.items()}
    for name, leaf in found.items():
        leaf.grad = optimiser.gradients[name]
    return found


def seek(
    generator: Params,
    noise: Tensor,
    labels: Tensor,
    *,
    shares: Tensor,
    student: Params,
    uploads: Uploads,
    gcn: GCN,
) -> None:
    """Leave in the generator the gradient of its loss: nodes that clients know and the average does not.

        Σ_i Σ_c r_ic (CE(z_i) - mean|z - z_i|) + K · diversity,   z_i constant in the second term

    Clients enter by their gradient in P X, summed one after the other.
    """
    found = generate(generator, noise, labels)
    around = nearest(found.detach())
    messages = around @ found
    leaf = messages.detach().requires_grad_()
    field = pseudo_field(leaf, around, gcn)
    taught = []
    for upload, share in zip(uploads, shares, strict=True):
        logits = gcn.forward(upload, field).logits
        (share @ losses(logits, labels)).backward()
        taught.append(logits.detach())
    seen = gcn.forward({name: value.detach() for name, value in student.items()}, field)
    (-gap(seen.logits, torch.stack(taught), shares)).backward()
    spread = len(shares) * diversity(noise, found)
    torch.autograd.backward([messages, spread], [leaf.grad, None])


def gap(logits: Tensor, taught: Tensor, shares: Tensor) -> Tensor:
    """Σ_i Σ_v share_iv mean_c |z_vc - z_ivc|."""
    return (shares * (logits - taught).abs().mean(2)).sum()


def diversity(noise: Tensor, found: Tensor) -> Tensor:
    """exp(-mean over pairs of (mean squared noise difference) · (mean absolute feature difference))."""
    apart = torch.cdist(noise, noise).square() / noise.shape[1]
    return (-(apart * torch.cdist(found, found, p=1) / found.shape[1]).mean()).exp()


def balanced(classes: int) -> Tensor:
    """The pseudo-nodes' labels: equally many a class in class order, the remainder to the last."""
    return (torch.arange(NODES) // max(1, NODES // classes)).clamp(max=classes - 1)


def untrained(gcn: GCN, random: torch.Generator) -> dict[str, Tensor]:
    """The generator's start: a normal label embedding, linear layers uniform on ± 1/sqrt(in)."""
    widths = (gcn.classes + NOISE, *HIDDEN, gcn.features)
    params = {"labels": torch.randn(gcn.classes, gcn.classes, generator=random)}
    for layer, (fan_in, fan_out) in enumerate(pairwise(widths)):
        drawn = torch.rand(fan_out, fan_in + 1, generator=random) * 2 - 1
        params[f"{layer}.weight"] = drawn[:, 1:] / fan_in**0.5
        params[f"{layer}.bias"] = drawn[:, 0] / fan_in**0.5
    return params


def generate(params: Params, noise: Tensor, labels: Tensor) -> Tensor:
    """Features for each noise and label: linear layers with tanh between."""
    hidden = torch.cat([params["labels"][labels], noise], dim=1)
    for layer in range(len(HIDDEN) + 1):
        hidden = hidden.tanh() if layer else hidden
        hidden = hidden @ params[f"{layer}.weight"].t() + params[f"{layer}.bias"]
    return hidden


def nearest(features: Tensor) -> Tensor:
    """P of the graph that joins each node to its five most similar, itself among them."""
    unit = normalize(features)
    chosen = (unit @ unit.t()).topk(NEAREST, dim=1).indices
    joined = torch.zeros(len(unit), len(unit)).scatter_(1, chosen, 1.0)
    joined = torch.maximum(joined, joined.t()).fill_diagonal_(1.0)
    scale = joined.sum(1).rsqrt()
    return scale[:, None] * joined * scale


def pseudo_field(messages: Tensor, around: Tensor, gcn: GCN) -> Field:
    everyone = torch.arange(len(around))
    operators: tuple[Tensor | Operator, ...] = (
        messages,
        *[Operator(around)] * (gcn.layers - 1),
    )
    return Field((everyone,) * gcn.layers, operators)


def dropout(probability: float, random: torch.Generator) -> Callable[[Tensor], Tensor]:
    """Zero with that probability, scaled so that the mean stays."""

    def drop(hidden: Tensor) -> Tensor:
        keep = torch.rand(hidden.shape, generator=random) >= probability
        return hidden * keep / (1 - probability)

    return drop
