"""Graphs whose neighbours differ (Platonov et al., 2023): one .npz each, as PyG downloads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

NAMES = ("minesweeper", "tolokers", "actor", "chameleon-filtered", "squirrel-filtered")


def stem(name: str) -> str:
    """The name of its folder and file."""
    return name.replace("-", "_")


def read_heterophilous(path: Path) -> tuple[Tensor, Tensor, Tensor]:
    """Features, edges (one direction each) and labels; the published splits are not read."""
    with np.load(path, allow_pickle=False) as stored:
        return (
            torch.from_numpy(stored["node_features"]).float(),
            torch.from_numpy(stored["edges"]).long().t(),
            torch.from_numpy(stored["node_labels"]).long(),
        )
