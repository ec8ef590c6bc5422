"""Many clients and seeds: one after the other, or all at once on a GPU where pace-gpu is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from pace.graph import Graph
from pace.models import Network
from pace.params import Params

PACKAGE = "pace_gpu"


def gpu_cohort(device: torch.device | str) -> Any:
    """`pace_gpu.cohort`; None where the device is no GPU or the package is not installed."""
    if torch.device(device).type != "cuda" or find_spec(PACKAGE) is None:
        return None
    return import_module(f"{PACKAGE}.cohort")


class Forward:
    """A network on some clients' graphs.

    Calling it gives the logits (nodes, classes) of each client's models, by client and then by model.
    """

    def __init__(
        self, graphs: Sequence[Graph], network: Network, device: torch.device | str = "cpu"
    ) -> None:
        self.graphs, self.network, self.device = graphs, network, torch.device(device)

    @classmethod
    def on(cls, graphs: Sequence[Graph], network: Network, device: torch.device | str) -> Forward:
        """The one that is fastest there."""
        cohort = gpu_cohort(device)
        kind: type[Forward] = cls if cohort is None else cohort.CohortForward
        return kind(graphs, network, device)

    @torch.no_grad()
    def __call__(self, models: Sequence[Sequence[Params]]) -> list[list[Tensor]]:
        return [
            [self.network(model, graph).logits for model in by_client]
            for graph, by_client in zip(self.graphs, models, strict=True)
        ]
