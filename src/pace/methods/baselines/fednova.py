"""FedNova, one round: displacements are averaged by the step (Wang et al., 2020)."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pace.graph import Graph
from pace.methods.baselines.fedavg import FedAvg, at_least, weighted_mean
from pace.params import Params, subtract
from pace.protocol.federation import Federation
from pace.protocol.method import Message, Uploads
from pace.training.recipe import Recipe


@dataclass(frozen=True)
class FedNova(FedAvg):
    """W = W_0 + τ Σ_i p_i (W_i - W_0) / a_i,   τ = Σ_i p_i a_i

    a_i is what a client's steps amount to. Where all take the same steps, this is FedAvg of the
    same local models, so the paper's gap to FedAvg comes from the local solver: plain SGD at the
    shared rate (the default) fits its FedNova on Cora and CiteSeer, before and after CNLL.
    `FedNova(momentum=0.9)` is the official launch line.
    """

    momentum: float = 0.0

    @property
    def recipe(self) -> Recipe:
        return Recipe(optimiser="sgd", momentum=self.momentum)

    def share(self, local: Params, graph: Graph, federation: Federation) -> dict[str, Tensor]:
        # A client without training nodes takes no step.
        steps = federation.recipe.epochs if graph.train.any() else 0
        amount = torch.tensor([normaliser(steps, self.momentum)])
        return {**super().share(local, graph, federation), "amount": amount}

    def check(self, upload: Message, federation: Federation) -> None:
        super().check(upload, federation)
        at_least(upload, "amount", 0)

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        start = federation.start
        nodes = sum(float(upload["nodes"]) for upload in uploads)
        tau = sum(float(upload["nodes"]) * float(upload["amount"]) for upload in uploads) / nodes
        step = weighted_mean(
            (
                (
                    {
                        name: value / max(1.0, float(upload["amount"]))
                        for name, value in subtract(start, upload).items()
                    },
                    float(upload["nodes"]),
                )
                for upload in uploads
            ),
            start,
        )
        average = {name: value - tau * step[name] for name, value in start.items()}
        return (average for _ in uploads)


def normaliser(steps: int, momentum: float) -> float:
    """a: the sum over steps of the weight c = ρ c + 1 with which a gradient enters the displacement."""
    weight, amount = 0.0, 0.0
    for _ in range(steps):
        weight = momentum * weight + 1
        amount += weight
    return amount
