"""Local, and one round of FedAvg (McMahan et al., 2017) and of FedProx (Li et al., 2020)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from pace.errors import SettingError, WeightError
from pace.gates import Gate, keep_local
from pace.graph import Graph
from pace.params import Params
from pace.protocol import Federation, Message, Method, Summable, Uploads, Weight, bounded
from pace.training import Proximal, Recipe


@dataclass(frozen=True)
class Local(Method):
    """Every client trains alone and nothing is sent.

    Every message is empty and the External model is the Local one.
    """

    needs: ClassVar[str] = "nothing is sent"

    def share(self, local: Params, graph: Graph, federation: Federation) -> Message:
        return {}

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        return ({} for _ in range(len(uploads)))

    @property
    def gate(self) -> Gate:
        return keep_local


@dataclass(frozen=True)
class FedAvg(Summable):
    """The average of all local models replaces them (McMahan et al., 2017).

    W = Σ_i p_i W_i with p_i the share of all nodes, not of training nodes, as in OpenFGL.
    """

    tensors: ClassVar[Mapping[str, str]] = {"nodes": "how many nodes your graph has"}

    def share(self, local: Params, graph: Graph, federation: Federation) -> dict[str, Tensor]:
        return {**local, "nodes": torch.tensor([float(graph.nodes)])}

    def check(self, upload: Message, federation: Federation) -> None:
        bounded(upload)
        at_least(upload, "nodes", 1)

    def statistic_of(self, upload: Message, federation: Federation) -> dict[str, Tensor]:
        """n W and n."""
        nodes = upload["nodes"].double()
        return {name: nodes * upload[name].double() for name in federation.start} | {"nodes": nodes}

    def check_total(self, total: Message, clients: int, federation: Federation) -> None:
        at_least(total, "nodes", clients)

    def answer(self, total: Message, federation: Federation) -> dict[str, Tensor]:
        return {name: (total[name] / total["nodes"]).float() for name in federation.start}

    def weights(self, uploads: Uploads, federation: Federation) -> list[Weight]:
        """A client's share of the average is its share of all nodes."""
        nodes = [float(upload["nodes"]) for upload in uploads]
        pairs = zip(super().weights(uploads, federation), nodes, strict=True)
        return [replace(weight, share=count / sum(nodes)) for weight, count in pairs]


@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg of clients that are held near the common start (Li et al., 2020).

    FedAvg of clients trained on the cross-entropy plus (μ/2) ‖W - W_0‖².

    μ = 1e-3 is OpenFGL's, and the only one of 1e-3, 1e-2, 1e-1 that lifts the average on Cora as
    the paper's does. The term is part of the loss, before Adam rescales it.
    """

    mu: float = 1e-3

    def __post_init__(self) -> None:
        if self.mu < 0:
            raise SettingError(f"mu is {self.mu}, expected 0 or more")

    @property
    def recipe(self) -> Recipe:
        return replace(super().recipe, penalty=Proximal(self.mu))


def at_least(upload: Message, name: str, least: float) -> None:
    """Refuse an upload whose weight would count against others, or for everyone."""
    lowest = float(upload[name].min())
    if lowest < least:
        raise WeightError(f"{name!r} of the upload is {lowest:.3g}, expected {least:g} or more")
