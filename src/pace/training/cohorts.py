"""Many clients and seeds: all at once on a GPU with pace-gpu, and after an interruption."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from pace.graph import Graph
from pace.io import atomic
from pace.models import Network
from pace.params import Params


def gpu_cohort(device: torch.device | str) -> Any:
    """`pace_gpu.cohort`; None where the device is no GPU or the package is not installed."""
    if torch.device(device).type != "cuda" or find_spec("pace_gpu") is None:
        return None
    return import_module("pace_gpu.cohort")


class Forward:
    """A network on some clients' graphs.

    Calling it gives the logits (nodes, classes) of each client's models, by client and then by model.
    """

    def __init__(
        self, graphs: Sequence[Graph], network: Network, device: torch.device | str = "cpu"
    ) -> None:
        self.graphs, self.network, self.device = graphs, network, torch.device(device)

    @classmethod
    def on(cls, graphs: Sequence[Graph], network: Network, device: torch.device | str) -> Self:
        """The one that is fastest there."""
        cohort = gpu_cohort(device)
        kind: type[Self] = cls if cohort is None else cohort.CohortForward
        return kind(graphs, network, device)

    @torch.no_grad()
    def __call__(self, models: Sequence[Sequence[Params]]) -> list[list[Tensor]]:
        return [
            [self.network(model, graph).logits for model in by_client]
            for graph, by_client in zip(self.graphs, models, strict=True)
        ]


@dataclass(frozen=True)
class Checkpoints:
    """Trained models in a folder, each named by all that it follows from: graph, set-up and seed.

    A run that was interrupted goes on where it was.
    """

    folder: Path
    setup: str  # recipe, network and device

    def path(self, graph: Graph, seed: int) -> Path:
        key = hashlib.sha256(f"{self.setup} {graph.fingerprint} {seed}".encode())
        return self.folder / f"{key.hexdigest()[:32]}.safetensors"

    def read(self, graph: Graph, seed: int) -> dict[str, Tensor] | None:
        """The model, if it was trained before."""
        try:
            return load_file(self.path(graph, seed))
        except (FileNotFoundError, SafetensorError):
            return None

    def write(self, graph: Graph, seed: int, model: Params) -> None:
        tensors = {name: value.contiguous() for name, value in model.items()}
        atomic.write(self.path(graph, seed), save(tensors))
