"""A trial as it is stored, in a run's results.json or in a cell of the study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pace.errors import FileError
from pace.io import regular, untrusted
from pace.io.versions import installed
from pace.reports.trial import Trial

FORMAT = "pace-cell-1"
LARGEST = 2**28  # bytes of a file of results
HIDDEN, LAYERS = 64, 2  # of the study's network
PARTS = {
    "settings", "versions", "device",
    "alphas", "confusions", "upload", "returned", "dense", "seconds",
}  # fmt: skip
TODAY = {"native": "external"}  # a reading's name in older files, and what it is called now
LIBRARIES = ("pace-fgl", "torch", "numpy", "scikit-network", "pymetis", "torch-geometric")


def versions() -> dict[str, str]:
    """What the result was made with."""
    return installed(LIBRARIES)


@dataclass(frozen=True)
class StoredCell:
    """A cell's file: one method on one dataset, partition and seed, and what it was computed with."""

    settings: Mapping[str, Any]
    """All that decides the result, as `study.cell.Cell.settings` describes it."""
    versions: Mapping[str, str]
    device: str
    content: Mapping[str, Any]
    """The whole file; the trial is in it, and is parsed when it is asked for."""

    @property
    def trial(self) -> Trial:
        return restored(self.settings["method"], self.settings["seed"], self.content)


def cells(folder: Path) -> Iterator[tuple[Path, StoredCell]]:
    """Every cell of a study's folder, with its file."""
    paths = sorted((folder / "cells").rglob("*.json"))
    if not paths:
        raise FileError(f"{folder} has no cells: write some with `pace reproduce --out {folder}`")
    for path in paths:
        try:
            yield path, read_cell(path)
        except ValueError as error:
            raise not_a_cell(path, error) from None


def not_a_cell(path: Path, error: Exception) -> FileError:
    return FileError(
        f"{path} is not a cell of a study ({error}): remove it, or run the study again"
    )


def read_cell(path: Path) -> StoredCell:
    """A cell's file; a ValueError says what else it is."""
    content = untrusted.json(regular.read(path, LARGEST))
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT}")
    if absent := PARTS - content.keys():
        raise ValueError(f"it has no {', '.join(sorted(absent))}")
    return StoredCell(content["settings"], content["versions"], content["device"], content)


def plain(trial: Trial, *, sparse: bool = False) -> dict[str, object]:
    """All that a trial found, as JSON has it; with rows of many zeros as pairs, if `sparse`."""
    rows = _sparse_rows if sparse else _rows
    return {
        "alphas": trial.alphas,
        "confusions": {
            reading: [rows(counts) for counts in clients]
            for reading, clients in trial.confusions.items()
        },
        "upload": trial.upload,
        "returned": trial.returned,
        "dense": trial.dense,
        "seconds": {step: round(value, 3) for step, value in trial.seconds.items()},
        **({"roc_auc": trial.roc_auc} if trial.roc_auc else {}),
    }


def restored(method: str, seed: int, found: Mapping[str, Any]) -> Trial:
    """The trial again, of older files too."""
    return Trial(
        method,
        seed,
        found["alphas"],
        {
            TODAY.get(reading, reading): [_counts(rows) for rows in clients]
            for reading, clients in found["confusions"].items()
        },
        found["upload"],
        found["returned"],
        found["dense"],
        found["seconds"],
        found.get("roc_auc", {}),
    )


def _rows(counts: Tensor) -> str:
    """A confusion matrix as text: `12 0 3;0 5 1;2 0 9`, a row a class."""
    return ";".join(" ".join(map(str, row)) for row in counts.tolist())


def _sparse_rows(counts: Tensor) -> str:
    """The same, with a row as `class:count` pairs where that is shorter: `12 0 3;1:5;;`."""
    rows = []
    for row, dense in zip(counts.tolist(), _rows(counts).split(";"), strict=True):
        pairs = " ".join(f"{label}:{count}" for label, count in enumerate(row) if count)
        rows.append(min(dense, pairs, key=len))
    return ";".join(rows)


def _counts(text: str) -> Tensor:
    """A confusion matrix of either notation: a row of counts, or of pairs."""
    rows = text.split(";")
    return torch.tensor([_dense(row, len(rows)) for row in rows])


def _dense(row: str, width: int) -> list[int]:
    if len(items := row.split()) == width and ":" not in row:
        return list(map(int, items))
    counts = [0] * width
    for item in items:
        label, _, count = item.partition(":")
        counts[int(label)] = int(count)
    return counts
