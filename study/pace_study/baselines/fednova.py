"""FedNova, one round: displacements are averaged by the step (Wang et al., 2020)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pace.graph import Graph
from pace.methods import FedAvg, at_least
from pace.params import Params, subtract
from pace.protocol import Federation, Message
from pace.training import Recipe


@dataclass(frozen=True)
class FedNova(FedAvg):
    """FedAvg of updates that are divided by how much each client trained (Wang et al., 2020).

    W = W_0 + τ Σ_i p_i (W_i - W_0) / a_i,   τ = Σ_i p_i a_i

    a_i counts a client's steps. Where all take the same steps, this is FedAvg of the same local
    models, so the paper's gap to FedAvg comes from the local solver: plain SGD at the shared rate fits
    its FedNova on Cora and CiteSeer, before and after CNLL.
    """

    tensors: ClassVar[Mapping[str, str]] = {
        **FedAvg.tensors,
        "amount": "how much your client trained",
    }

    @property
    def recipe(self) -> Recipe:
        return Recipe(optimiser="sgd")

    def share(self, local: Params, graph: Graph, federation: Federation) -> dict[str, Tensor]:
        # A client without training nodes takes no step.
        steps = federation.recipe.epochs if graph.train.any() else 0
        return super().share(local, graph, federation) | {"amount": torch.tensor([float(steps)])}

    def check(self, upload: Message, federation: Federation) -> None:
        super().check(upload, federation)
        at_least(upload, "amount", 0)

    def statistic_of(self, upload: Message, federation: Federation) -> dict[str, Tensor]:
        """n (W_0 - W) / a, n and n a."""
        amount = upload["amount"]
        steps = {
            name: value / amount.clamp_min(1.0)
            for name, value in subtract(federation.start, upload).items()
        }
        total = super().statistic_of({**upload, **steps}, federation)
        return total | {"amount": total["nodes"] * amount.double()}

    def check_total(self, total: Message, clients: int, federation: Federation) -> None:
        super().check_total(total, clients, federation)
        at_least(total, "amount", 0)

    def answer(self, total: Message, federation: Federation) -> dict[str, Tensor]:
        step = super().answer(total, federation)
        tau = float(total["amount"] / total["nodes"])
        return {name: value - tau * step[name] for name, value in federation.start.items()}
