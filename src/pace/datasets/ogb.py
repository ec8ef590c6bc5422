"""OGB's on-disk layout, read directly.

The `ogb` package looks for a newer version of itself on the internet whenever it is imported, asks
questions on the terminal and unpickles what it processed; the four files below are all it would read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

FILES = ("edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz", "num-node-list.csv.gz")


def read_ogb(raw: Path) -> tuple[Tensor, Tensor, Tensor]:
    """Features (n, d), edges as stored (2, m) and labels (n,) of a dataset of one graph."""
    edges, features, labels, nodes = (raw / name for name in FILES)
    (count,) = np.loadtxt(nodes, dtype=np.int64, delimiter=",", ndmin=1)
    x = np.loadtxt(features, dtype=np.float32, delimiter=",", ndmin=2)
    y = np.loadtxt(labels, dtype=np.int64, delimiter=",", ndmin=2)
    pairs = np.loadtxt(edges, dtype=np.int64, delimiter=",", ndmin=2)
    if not count == len(x) == len(y):
        raise ValueError(f"{count} nodes, {len(x)} rows of features and {len(y)} labels")
    return (
        torch.from_numpy(x),
        torch.from_numpy(pairs.T.copy()),
        torch.from_numpy(y[:, 0].copy()),
    )
