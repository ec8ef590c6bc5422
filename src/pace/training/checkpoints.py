"""Trained models in a folder, so that a run that was interrupted goes on where it was."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from pace.graph import Graph
from pace.io import atomic
from pace.params import Params


@dataclass(frozen=True)
class Checkpoints:
    """A file a model, named by all that it follows from: graph, set-up and seed."""

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
        self.folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: value.contiguous() for name, value in model.items()}
        atomic.write(self.path(graph, seed), save(tensors))
