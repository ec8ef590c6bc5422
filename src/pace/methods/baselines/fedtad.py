"""FedTAD, one round: the average, distilled without data from what clients know (Zhu et al., 2024)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from pace.errors import SettingError
from pace.graph import Graph
from pace.methods.baselines.distillation import distil
from pace.methods.baselines.fedavg import FedAvg
from pace.methods.baselines.mixing import gathered
from pace.methods.baselines.reliability import reliability, walked_ids
from pace.models.base import Model
from pace.models.gcn import GCN, only_gcn
from pace.params import Params
from pace.protocol.federation import Federation
from pace.protocol.method import Message, Uploads

CLASSES = 4096  # at most


def within_clients(raw: Tensor) -> Tensor:
    """A client's weights, which sum to one over classes, as OpenFGL has it."""
    return raw / raw.sum(1, keepdim=True).clamp_min(1e-12)


@dataclass(frozen=True)
class FedTAD(FedAvg):
    """FedAvg, then distilled at the server from the clients that know a class (Zhu et al., 2024).

    FedAvg, then 5 × (1 generator step, 5 steps of the average towards the clients' logits).

    Clients send with their model how reliable it is for each class; the generator looks for nodes
    that reliable clients classify and the average treats differently. 25 steps at a rate of 1e-3
    move little: FedTAD stays near FedAvg. It follows OpenFGL where that differs from the official
    repository, which normalises a class's weights over clients.
    """

    needs: ClassVar[str] = "its server distils from every client's model"

    tensors: ClassVar[Mapping[str, str]] = {
        **FedAvg.tensors,
        "reliability": "how reliable each class is (from training labels)",
    }

    rounds: int = 5

    def network(self, model: Model) -> GCN:
        return only_gcn(model, "FedTAD")

    def share(self, local: Params, graph: Graph, federation: Federation) -> dict[str, Tensor]:
        if federation.model.classes > CLASSES:
            raise SettingError(
                f"FedTAD's generator holds classes², and there are {federation.model.classes:,} "
                f"classes, expected at most {CLASSES:,}: choose another method"
            )
        walk = walked_ids(graph, federation.random("fedtad walk"))
        known = reliability(graph, federation.model.classes, walk)
        return {**super().share(local, graph, federation), "reliability": known}

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        average = self.answer(self.total(uploads, federation), federation)
        if not self.rounds or len(uploads) == 1:  # one client's average is its own model
            return (average for _ in range(len(uploads)))
        weights = within_clients(gathered(uploads, "reliability")).float()
        distilled = distil(average, uploads, weights, rounds=self.rounds, federation=federation)
        if not all(value.isfinite().all() for value in distilled.values()):
            distilled = average  # huge admitted numbers overflow the generator's gradient
        return (distilled for _ in range(len(uploads)))
