"""The files of benchmarks, each in the layout of its publisher, as tensors."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pace.datasets.raw import Benchmark

Parts = tuple[Tensor, ...]
"""Features, edges, labels; and the client of each node, where it has one."""

HETEROPHILOUS = ("minesweeper", "tolokers", "actor", "chameleon-filtered", "squirrel-filtered")
OGB = ("edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz", "num-node-list.csv.gz")
COUNTRIES = ("DE", "ENGB", "ES", "FR", "PTBR", "RU", "TW")
TWITCH_FEATURES = 3170  # binary, what a streamer plays, likes and lives in; in every country
TABLES = ("edges.csv", "features.json", "target.csv")
TWITCH = tuple(f"{home}/raw/musae_{home}_{table}" for home in COUNTRIES for table in TABLES)


def read_planetoid(raw: Path, benchmark: Benchmark) -> Parts:
    from torch_geometric.io import read_planetoid_data

    data = read_planetoid_data(str(raw), benchmark.title)
    return data.x, data.edge_index, data.y


def read_npz(raw: Path, benchmark: Benchmark) -> Parts:
    """Coauthor and Amazon, whose folder has one file."""
    from torch_geometric.io import read_npz as read

    data = read(str(raw / benchmark.files[0]))
    return data.x, data.edge_index, data.y


def read_heterophilous(raw: Path, benchmark: Benchmark) -> Parts:
    """Graphs whose neighbours differ (Platonov et al., 2023). Their splits are not read."""
    with np.load(raw / benchmark.files[0], allow_pickle=False) as stored:
        return (
            torch.from_numpy(stored["node_features"]).float(),
            torch.from_numpy(stored["edges"]).long().t(),
            torch.from_numpy(stored["node_labels"]).long(),
        )


def read_ogb(raw: Path, benchmark: Benchmark) -> Parts:
    """A dataset of one graph, without the `ogb` package.

    That looks for a newer version of itself on the internet whenever it is imported, asks questions
    on the terminal and unpickles what it processed; these four files are all it would read.
    """
    edges, features, labels, nodes = (raw / name for name in OGB)
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


def read_twitch(raw: Path, benchmark: Benchmark) -> Parts:
    """Seven graphs that share features (Rozemberczki et al., 2021); each country is a client.

    Labels say whether a streamer uses mature language.
    """
    first, parts = 0, []
    for number, country in enumerate(COUNTRIES):
        x, edges, y = _read_country(raw / country / "raw", country)
        parts.append((x, edges + first, y, torch.full_like(y, number)))
        first += len(y)
    features, ends, labels, owners = zip(*parts, strict=True)
    return torch.cat(features), torch.cat(ends, dim=1), torch.cat(labels), torch.cat(owners)


def _read_country(raw: Path, country: str) -> tuple[Tensor, Tensor, Tensor]:
    """One country; nodes are numbered by `new_id`. France's table lists two streamers twice."""
    edges_path, features_path, target_path = (raw / f"musae_{country}_{name}" for name in TABLES)
    with target_path.open(newline="", encoding="utf-8") as opened:
        mature = {int(row["new_id"]): row["mature"] == "True" for row in csv.DictReader(opened)}
    if sorted(mature) != list(range(len(mature))):
        raise ValueError(f"{target_path.name} does not number nodes from 0 by new_id")
    y = torch.tensor([mature[node] for node in range(len(mature))]).long()
    x = torch.zeros(len(y), TWITCH_FEATURES)
    for node, listed in json.loads(features_path.read_text(encoding="utf-8")).items():
        x[int(node), torch.tensor(listed, dtype=torch.int64)] = 1.0
    with edges_path.open(newline="", encoding="utf-8") as opened:
        pairs = [(int(row["from"]), int(row["to"])) for row in csv.DictReader(opened)]
    return x, torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).t(), y


# By family. Planetoid, Coauthor and Amazon are read as PyG's `process` does, without its folders.
READERS: dict[str, Callable[[Path, Benchmark], Parts]] = {
    "Planetoid": read_planetoid,
    "Coauthor": read_npz,
    "Amazon": read_npz,
    "OGB": read_ogb,
    "Twitch": read_twitch,
    "Heterophilous": read_heterophilous,
}
