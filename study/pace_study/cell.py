"""A cell: one method on one dataset, partition and seed; what is stored of it, and where."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pace.io import atomic
from pace.methods import Pace
from pace.models import sized
from pace.protocol.federation import describe
from pace.reports.stored import FORMAT, HIDDEN, LAYERS, StoredCell, plain, read_cell, versions
from pace.reports.trial import Trial
from pace_study.controls import study_method

FIRST = ("model", "gcn")  # what cells say that do not name a model


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
    model: str = "gcn"

    @property
    def place(self) -> tuple[str, str, int, int, str, int]:
        """Cells of one place share their client graphs and their trainings."""
        where = self.dataset, self.partition, self.clients, self.data_seed
        return *where, self.model, self.seed

    @property
    def path(self) -> Path:
        """`cora/louvain-c10-d2024/pace-r6/104729.json`; a file's dataset goes by its stem.

        A model other than the GCN stands behind the place: `cora/louvain-c10-d2024-sage/…`.
        """
        ranked = isinstance(study_method(self.method), Pace)
        rank = f"-r{self.rank or 'dense'}" if ranked else ""
        where = f"{self.partition}-c{self.clients}-d{self.data_seed}"
        if self.model != "gcn":
            where += "-" + re.sub(r"[^\w.=,-]", "_", self.model)
        name = Path(self.dataset).stem if self.dataset.endswith(".graph") else self.dataset
        folder = re.sub(r"[^\w.=,-]", "_", name)
        return Path(folder, where, f"{self.method}{rank}", f"{self.seed}.json")

    def settings(self, epochs: int | None) -> dict[str, object]:
        """All that decides the result. A stored cell whose settings differ is stale."""
        method = study_method(self.method, self.rank)
        shape = sized(self.model, 1, HIDDEN, LAYERS, 1)  # widths at the ends are the dataset's
        file = Path(self.dataset)
        return {
            **{key: value for key, value in asdict(self).items() if (key, value) != FIRST},
            "data": hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None,
            "settings": describe(method),
            "recipe": describe(method.recipe),
            "network": describe(method.network(shape)),
            "epochs": epochs,
        }


@dataclass(frozen=True)
class Store:
    """A folder of cells, each a small file that is whole or absent."""

    folder: Path

    def has(self, cell: Cell, epochs: int | None) -> bool:
        """Whether the cell is stored with all of these settings."""
        stored = self._stored(cell)
        return stored is not None and agrees(stored.settings, cell.settings(epochs))

    def write(self, cell: Cell, trial: Trial, *, epochs: int | None, device: str) -> None:
        content = {
            "format": FORMAT,
            "settings": cell.settings(epochs),
            "versions": versions(),
            "device": device,
            **plain(trial, sparse=True),
        }
        atomic.write(self.folder / cell.path, json.dumps(content, indent=0).encode() + b"\n")

    def read(self, cell: Cell) -> Trial | None:
        """The stored result, or None."""
        stored = self._stored(cell)
        return None if stored is None else stored.trial

    def _stored(self, cell: Cell) -> StoredCell | None:
        try:
            return read_cell(self.folder / cell.path)
        except (FileNotFoundError, ValueError):  # a damaged one is computed again
            return None


def agrees(stored: object, wanted: object) -> bool:
    """Whether a stored description holds every setting that is wanted, with its value.

    It may hold more: a setting that a method no longer has is one that was never changed.
    """
    if isinstance(stored, Mapping) and isinstance(wanted, Mapping):
        return all(key in stored and agrees(stored[key], wanted[key]) for key in wanted)
    return stored == wanted
