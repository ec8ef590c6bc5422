"""A cell: one method on one dataset, partition and seed; what is stored of it, and where."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pace import atomic
from pace.federation import describe
from pace.gcn import GCN
from pace.methods import make
from pace.simulation import Trial

FORMAT = "pace-cell-1"
HIDDEN, LAYERS = 64, 2
PARTS = {
    "settings", "versions", "device",
    "alphas", "confusions", "upload", "returned", "dense", "seconds",
}  # fmt: skip
LIBRARIES = ("pace-fgl", "torch", "numpy", "scikit-network", "pymetis", "torch-geometric")


@dataclass(frozen=True)
class Cell:
    """Where in the study a result belongs."""

    dataset: str
    partition: str
    clients: int
    method: str
    rank: int | None
    seed: int
    data_seed: int

    @property
    def place(self) -> tuple[str, str, int, int, int]:
        """Cells of one place share their client graphs and their trainings."""
        return self.dataset, self.partition, self.clients, self.data_seed, self.seed

    @property
    def path(self) -> Path:
        """`cora/louvain-c10-d2024/pace-r6/104729.json`; a file's dataset goes by its stem."""
        rank = f"-r{self.rank or 'dense'}" if self.method.startswith("pace") else ""
        where = f"{self.partition}-c{self.clients}-d{self.data_seed}"
        name = Path(self.dataset).stem if self.dataset.endswith(".graph") else self.dataset
        folder = re.sub(r"[^\w.=,-]", "_", name)
        return Path(folder, where, f"{self.method}{rank}", f"{self.seed}.json")

    def settings(self, epochs: int | None) -> dict[str, Any]:
        """All that decides the result. A stored cell whose settings differ is stale."""
        method = make(self.method, self.rank)
        shape = GCN((1, *[HIDDEN] * (LAYERS - 1), 1))  # widths at the ends are the dataset's
        file = Path(self.dataset)
        return {
            **asdict(self),
            "data": hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None,
            "settings": describe(method),
            "recipe": describe(method.recipe),
            "network": describe(method.network(shape)),
            "epochs": epochs,
        }


def versions() -> dict[str, str]:
    """What the result was made with."""
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@dataclass(frozen=True)
class Store:
    """A folder of cells, each a small file that is whole or not there."""

    folder: Path

    def has(self, cell: Cell, epochs: int | None) -> bool:
        """Whether the cell is stored with exactly these settings."""
        found = self._content(cell)
        return found is not None and found.get("settings") == cell.settings(epochs)

    def write(self, cell: Cell, trial: Trial, *, epochs: int | None, device: str) -> None:
        content = {
            "format": FORMAT,
            "settings": cell.settings(epochs),
            "versions": versions(),
            "device": device,
            **plain(trial),
        }
        atomic.write(self.folder / cell.path, json.dumps(content, indent=0).encode() + b"\n")

    def read(self, cell: Cell) -> Trial | None:
        """The stored result, or None."""
        found = self._content(cell)
        return None if found is None else restored(cell.method, cell.seed, found)

    def _content(self, cell: Cell) -> dict[str, Any] | None:
        try:
            return content(self.folder / cell.path)
        except (FileNotFoundError, ValueError):  # a damaged one is computed again
            return None


def content(path: Path) -> dict[str, Any]:
    """What a cell's file holds; a ValueError says what else it is."""
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"it has not the format {FORMAT}")
    if absent := PARTS - found.keys():
        raise ValueError(f"it has no {', '.join(sorted(absent))}")
    return found


def plain(trial: Trial) -> dict[str, Any]:
    """All that a trial found, as JSON has it."""
    return {
        "alphas": trial.alphas,
        "confusions": {
            reading: [_rows(counts) for counts in clients]
            for reading, clients in trial.confusions.items()
        },
        "upload": trial.upload,
        "returned": trial.returned,
        "dense": trial.dense,
        "seconds": {step: round(value, 3) for step, value in trial.seconds.items()},
    }


def restored(method: str, seed: int, found: Mapping[str, Any]) -> Trial:
    """The trial again."""
    return Trial(
        method,
        seed,
        found["alphas"],
        {
            reading: [_counts(rows) for rows in clients]
            for reading, clients in found["confusions"].items()
        },
        found["upload"],
        found["returned"],
        found["dense"],
        found["seconds"],
    )


def _rows(counts: Tensor) -> str:
    """A confusion matrix as text: `12 0 3;0 5 1;2 0 9`, a row a class."""
    return ";".join(" ".join(map(str, row)) for row in counts.tolist())


def _counts(rows: str) -> Tensor:
    return torch.tensor([list(map(int, row.split())) for row in rows.split(";")])
